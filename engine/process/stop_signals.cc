#include "engine/process/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>

namespace gyre {
namespace {

// Read by a signal handler.
std::atomic<const char*> last_words{nullptr};

void EndOnTheSpot(int signal) {
  const char* const words = last_words.load(std::memory_order_relaxed);
  StopSignals::End(signal, words == nullptr ? "" : words);
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

// With async-signal-safe calls only.
void StopSignals::End(int signal, absl::string_view words) {
  (void)!write(STDERR_FILENO, words.data(), words.size());
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
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (Asks(signal)) sigaction(signal, &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &stop_, nullptr);
}

void StopSignals::Hold() const { pthread_sigmask(SIG_BLOCK, &stop_, nullptr); }

}  // namespace gyre
