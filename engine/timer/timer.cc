#include "engine/timer/timer.h"

namespace gyre {

Timer::Timer(const Clock& clock) : wheel_(clock.NowNs()) {}

Timer::~Timer() {
  MutexLock lock(mutex_);
  while (expired_.PopFront() != nullptr) {
  }
}

void Timer::Add(TimerEntry* entry, int64_t deadline_ns) {
  bool wake;
  {
    MutexLock lock(mutex_);
    entry->deadline_ns = deadline_ns;
    wheel_.Add(entry);
    wake = deadline_ns < sleeping_until_ns_;
    // One wake-up is enough; the thread says anew how long it sleeps.
    if (wake) sleeping_until_ns_ = INT64_MIN;
  }
  if (wake) wakeup_.NotifyOne();
}

bool Timer::Cancel(TimerEntry* entry) {
  MutexLock lock(mutex_);
  if (wheel_.Cancel(entry)) return true;
  if (!entry->linked()) return false;
  entry->Unlink();  // collected, not called yet
  return true;
}

bool Timer::RunOnce(int64_t now_ns) {
  {
    MutexLock lock(mutex_);
    sleeping_until_ns_ = INT64_MIN;
    wheel_.AdvanceTo(now_ns, &expired_);
  }
  for (int i = 0; i < kMaxExpiredPerTurn; ++i) {
    TimerEntry* entry = TakeExpired();
    if (entry == nullptr) return i > 0;
    // Without the lock: it may add or cancel timers.
    entry->on_expire(entry);
  }
  return true;
}

TimerEntry* Timer::TakeExpired() {
  MutexLock lock(mutex_);
  return expired_.PopFront();
}

int64_t Timer::NextDeadlineNs() const {
  MutexLock lock(mutex_);
  sleeping_until_ns_ = expired_.empty() ? wheel_.NextExpiryNs() : INT64_MIN;
  return sleeping_until_ns_;
}

size_t Timer::size() const {
  MutexLock lock(mutex_);
  return wheel_.size();
}

}  // namespace gyre
