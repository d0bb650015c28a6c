#include "engine/process/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace gyre {
namespace {

// Read by a signal handler.
std::atomic<const char*> last_words{nullptr};

// With async-signal-safe calls only.
void EndOnTheSpot(int signal) {
  if (const char* words = last_words.load(std::memory_order_relaxed); words != nullptr) {
    (void)!write(STDERR_FILENO, words, std::strlen(words));
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

StopSignals::StopSignals(std::initializer_list<int> others) {
  sigemptyset(&stop_);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&stop_, signal);
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&stop_, SIGHUP);
  }
  all_ = stop_;
  for (int signal : others) sigaddset(&all_, signal);
  pthread_sigmask(SIG_BLOCK, &all_, nullptr);
}

int StopSignals::Wait() const {
  int signal = 0;
  // Fails for a set that is no set only.
  sigwait(&all_, &signal);
  return signal;
}

int StopSignals::TryTake() const {
  const timespec no_time = {};
  return std::max(sigtimedwait(&stop_, nullptr, &no_time), 0);
}

UniqueFd StopSignals::Descriptor() const {
  return UniqueFd(signalfd(-1, &stop_, SFD_NONBLOCK | SFD_CLOEXEC));
}

void StopSignals::End(int signal, absl::string_view last_words) {
  (void)!write(STDERR_FILENO, last_words.data(), last_words.size());
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
  // Not reached: the default of each of them ends the process.
  std::_Exit(128 + signal);
}

void StopSignals::EndAtNext(const char* words) const {
  last_words.store(words, std::memory_order_relaxed);
  struct sigaction action = {};
  action.sa_handler = &EndOnTheSpot;
  // Else the one that it raises would wait for its return.
  action.sa_flags = SA_NODEFER;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (Asks(signal)) sigaction(signal, &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &stop_, nullptr);
}

void StopSignals::Hold() const { pthread_sigmask(SIG_BLOCK, &stop_, nullptr); }

}  // namespace gyre
