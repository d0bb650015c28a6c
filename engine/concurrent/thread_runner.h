// The one place where engine threads wait. A thread is a named loop around a
// body whose RunOnce never blocks; a simulation calls the same RunOnce itself,
// in an order drawn from a seed.
//
// Threads: Start, Stop, Join one controlling thread; RequestStop any.
// Owns: the thread.  Borrows: body, waiting place and clock, until Join.
#ifndef GYRE_ENGINE_CONCURRENT_THREAD_RUNNER_H_
#define GYRE_ENGINE_CONCURRENT_THREAD_RUNNER_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/base/time_share.h"
#include "engine/concurrent/event_count.h"

namespace gyre {

class ThreadBody {
 public:
  // No deadline.
  static constexpr int64_t kNever = INT64_MAX;

  virtual ~ThreadBody() = default;
  // One turn, without blocking. True: there may be more to do right away.
  virtual bool RunOnce(int64_t now_ns) = 0;
  // Asked after RunOnce returned false: when it must run again even if nobody
  // wakes it.
  virtual int64_t NextDeadlineNs() const { return kNever; }
  // On the thread, before the first RunOnce and after the last.
  virtual void OnThreadStart() {}
  virtual void OnThreadStop() {}
};

// A waiting place of the body's own, such as a ring.
class ThreadWaiter {
 public:
  virtual ~ThreadWaiter() = default;
  // Waits until `deadline_ns` (kNever: no limit), the body's own events, or a
  // Wake(). A Wake since the last Wait returned must end this one at once.
  virtual void Wait(int64_t now_ns, int64_t deadline_ns) = 0;
  // Any thread.
  virtual void Wake() = 0;
};

class ThreadRunner {
 public:
  // Parks on `wakeup`, which several runners may share (a pool): after
  // publishing work its producers call NotifyOne. RunOnce is called once more
  // between announcing the wait and sleeping, so no work is slept over.
  ThreadRunner(std::string name, ThreadBody& body, EventCount& wakeup, const Clock& clock);
  // Parks in `waiter`.
  ThreadRunner(std::string name, ThreadBody& body, ThreadWaiter& waiter, const Clock& clock);
  ThreadRunner(const ThreadRunner&) = delete;
  ThreadRunner& operator=(const ThreadRunner&) = delete;
  // Stops and joins.
  ~ThreadRunner();

  // Once. The kernel's thread name is the first 15 bytes of `name`. RESOURCE_EXHAUSTED
  // when the system allows no more threads; it may then be tried again.
  absl::Status Start();
  // The loop ends after the turn it is in; work that is left stays undone.
  void RequestStop();
  // Returns when the thread has ended; at once when it was never started.
  void Join();
  void Stop() {
    RequestStop();
    Join();
  }

  const std::string& name() const { return name_; }
  bool running() const { return running_; }
  // Whether the caller runs on it. Any thread.
  bool runs_here() const { return here_ == this; }
  // How long it slept on its event count, in all; any thread. One that parks in a waiter
  // of its own is measured there (wait_meter.h).
  int64_t IdleNs(int64_t now_ns) const { return idle_.TotalNs(now_ns); }

 private:
  void Loop();
  void Park();

  static thread_local const ThreadRunner* here_;  // whose loop this thread is
  const std::string name_;
  ThreadBody& body_;
  EventCount* const wakeup_;  // one of these two is null
  ThreadWaiter* const waiter_;
  const Clock& clock_;
  std::atomic<bool> stop_requested_{false};
  TimeShare idle_;
  pthread_t thread_{};
  bool running_ = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_THREAD_RUNNER_H_
