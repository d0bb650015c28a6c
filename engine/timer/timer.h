// Timeouts for any thread: a timing wheel behind a lock, driven by the `timer`
// thread, which sleeps until the next slot that holds something. An entry's
// on_expire runs on that thread: it marks and posts, and must not block.
//
// Threads: Add and Cancel any; RunOnce the timer thread (or a simulation).
// Owns: the wheel.  Borrows: entries, until they expired or were cancelled.
#ifndef GYRE_ENGINE_TIMER_TIMER_H_
#define GYRE_ENGINE_TIMER_TIMER_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "engine/base/clock.h"
#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/timer/timing_wheel.h"

namespace gyre {

class Timer final : public ThreadBody {
 public:
  explicit Timer(const Clock& clock);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  // Entries still pending are let go without on_expire.
  ~Timer() override;

  // The entry's on_expire runs once, not before `deadline_ns`; soon if that has
  // passed. The entry is not pending.
  void Add(TimerEntry* entry, int64_t deadline_ns);
  // True: on_expire will not run for the last Add. False: it did, it is about
  // to, or the entry was not pending; an owner that may then free the entry
  // counts references, one of which the pending entry holds.
  bool Cancel(TimerEntry* entry);

  // ThreadBody.
  bool RunOnce(int64_t now_ns) override;
  int64_t NextDeadlineNs() const override;
  // Where the runner of the timer thread parks.
  EventCount& wakeup() { return wakeup_; }

  // Gauge: entries pending.
  size_t size() const;

 private:
  // on_expire calls per turn, so that a stop is seen between them.
  static constexpr int kMaxExpiredPerTurn = 256;

  TimerEntry* TakeExpired() ABSL_LOCKS_EXCLUDED(mutex_);

  EventCount wakeup_;
  mutable Mutex mutex_;
  mutable TimingWheel wheel_ ABSL_GUARDED_BY(mutex_);
  // Collected from the wheel, on_expire still to be called.
  TimerList expired_ ABSL_GUARDED_BY(mutex_);
  // The deadline the thread was last told to sleep until; an earlier Add wakes it.
  mutable int64_t sleeping_until_ns_ ABSL_GUARDED_BY(mutex_) = INT64_MIN;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_TIMER_TIMER_H_
