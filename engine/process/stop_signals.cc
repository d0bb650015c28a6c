#include "engine/process/stop_signals.h"

#include <unistd.h>

#include <atomic>
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

bool StopSignals::TryTake() const {
  const timespec no_time = {};
  return sigtimedwait(&stop_, nullptr, &no_time) > 0;
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
