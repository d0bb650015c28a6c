// Lets consumers of a lock-free structure sleep until there may be something
// in it. The consumer announces itself, looks once more, then sleeps:
//
//   if (queue.TryPop(item)) return item;
//   const EventCount::Key key = event.PrepareWait();
//   if (queue.TryPop(item)) { event.CancelWait(); return item; }
//   event.CommitWait(key, timeout_ns);          // then look again
//
// A producer publishes first and notifies after: `queue.TryPush(x);
// event.NotifyOne();`. With nobody waiting a notify is a fence and a load.
// A waiter that was notified but did not run yet is not notified again, so a
// busy producer pays one system call per sleeper, not per element.
//
// Threads: any; lock-free but for the futex itself.
// Invariant: 0 <= signals <= waiters; a notify after a PrepareWait ends that
// wait, or another one that began before it.
#ifndef GYRE_ENGINE_CONCURRENT_EVENT_COUNT_H_
#define GYRE_ENGINE_CONCURRENT_EVENT_COUNT_H_

#include <atomic>
#include <cstdint>

#include "engine/base/limits.h"

namespace gyre {

class EventCount {
 public:
  using Key = uint32_t;

  EventCount() = default;
  EventCount(const EventCount&) = delete;
  EventCount& operator=(const EventCount&) = delete;

  // From here to CancelWait or CommitWait the caller counts as waiting.
  Key PrepareWait() {
    // seq_cst: orders this before the caller's second look; pairs with the
    // fence in Notify.
    const uint64_t before = state_.fetch_add(kOneWaiter, std::memory_order_seq_cst);
    return static_cast<Key>(before & kEpochMask);
  }
  void CancelWait() { Leave(); }
  // Sleeps until a notify that came after PrepareWait, at most `timeout_ns`
  // (< 0: no limit). May return for no reason.
  void CommitWait(Key key, int64_t timeout_ns = -1);

  // Wakes at least as many of those waiting, in one system call; 0 wakes nobody.
  void Notify(uint32_t count) {
    // Pairs with PrepareWait: either this load sees the waiter, or the
    // waiter's second look sees what the caller published.
    FullFence();
    const uint64_t state = state_.load(std::memory_order_relaxed);
    if (Waiters(state) == Signals(state)) [[likely]]
      return;
    NotifySlow(count);
  }
  void NotifyOne() { Notify(1); }
  void NotifyAll() { Notify(kAll); }

  // Gauge.
  uint32_t waiter_count() const { return Waiters(state_.load(std::memory_order_relaxed)); }

 private:
  // epoch:32 (low, the futex word) | signals:16 | waiters:16
  static constexpr uint64_t kEpochMask = 0xffff'ffff;
  static constexpr int kSignalShift = 32;
  static constexpr int kWaiterShift = 48;
  static constexpr uint64_t kOneSignal = uint64_t{1} << kSignalShift;
  static constexpr uint64_t kOneWaiter = uint64_t{1} << kWaiterShift;
  static uint32_t Signals(uint64_t state) { return (state >> kSignalShift) & 0xffff; }
  static uint32_t Waiters(uint64_t state) { return static_cast<uint32_t>(state >> kWaiterShift); }

  static constexpr uint32_t kAll = UINT32_MAX;

  void NotifySlow(uint32_t count);
  static void FullFence() {
#if defined(__x86_64__)
    // What the compiler emits for a seq_cst fence is mfence, at twice the price.
    asm volatile("lock; orl $0, (%%rsp)" ::: "memory", "cc");
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
  void Leave();

  alignas(kCacheLineBytes) std::atomic<uint64_t> state_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_EVENT_COUNT_H_
