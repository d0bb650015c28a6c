// Bounds the bytes held for requests that were read and not yet answered. It counts;
// it holds no memory. Who cannot reserve stops reading from its connection and may join
// a FIFO, of which there are two.
//
// Whole requests are all there: what they take comes back when they are answered, by
// our own doing. Partial ones wait for their peers, and may hold what they have for
// ever; so they get no more than a share of the capacity, and whole requests, small as
// they mostly are, never wait for them. Among bytes that come back the FIFO of the whole
// goes first, until the capacity has been handed back once past a partial that fits its
// share: then it is that one's turn, and it waits only for requests under way.
//
// Threads: any. Reserve and release are lock-free while nobody waits.
// Owns: nothing.
// Invariant: 0 <= used <= capacity and 0 <= partial <= its share; each true TryReserve
// and each grant is matched by one Release of the same bytes and use.
#ifndef GYRE_ENGINE_MEMORY_MEMORY_POOL_H_
#define GYRE_ENGINE_MEMORY_MEMORY_POOL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "engine/base/intrusive_list.h"
#include "engine/base/limits.h"
#include "engine/concurrent/mutex.h"

namespace gyre {

class MemoryPool;

enum class MemoryUse : uint8_t {
  kWhole,    // of a request whose every byte has come
  kPartial,  // of one whose peer still has to send
};

// Waits for bytes. Stays alive until it was granted or cancelled.
struct MemoryWaiter : IntrusiveListNode<MemoryPool> {
  int64_t bytes = 0;
  MemoryUse use = MemoryUse::kWhole;
  // The bytes are reserved for the waiter. Called once, on the thread that
  // released them, under the pool's lock: it marks or posts and must not call
  // the pool.
  void (*on_granted)(MemoryWaiter* waiter) = nullptr;
};

class MemoryPool {
 public:
  static constexpr int64_t kUnbounded = INT64_MAX;
  // One part in so many is never lent to partial requests: many small requests, and
  // little enough that large ones hardly miss it.
  static constexpr int64_t kWholeOnlyPart = 8;

  // A request of up to `largest_bytes` can always come in, however much of the capacity
  // that is, if others let it.
  explicit MemoryPool(int64_t capacity_bytes, int64_t largest_bytes = 0)
      : capacity_bytes_(capacity_bytes),
        partial_capacity_bytes_(std::max(capacity_bytes - capacity_bytes / kWholeOnlyPart,
                                         std::min(largest_bytes, capacity_bytes))) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // False when the bytes do not fit, or when somebody waits whose turn is before.
  bool TryReserve(int64_t bytes, MemoryUse use);
  void Release(int64_t bytes, MemoryUse use);
  // Of what is reserved as partial: the rest of the request is here.
  void MakeWhole(int64_t bytes);

  // Queues the waiter; on_granted may run before this returns. False (and not
  // queued) when it wants more than it could ever get: it would wait for ever.
  bool Wait(MemoryWaiter* waiter);
  // True: it will not be granted any more. False: it was, and holds its bytes.
  bool CancelWait(MemoryWaiter* waiter);

  // The first of a FIFO waits for what partial requests hold: nobody else's bytes,
  // should they all come back, would be enough for it.
  bool WaitsForPartials();

  int64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  int64_t partial_bytes() const { return partial_bytes_.load(std::memory_order_relaxed); }
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t partial_capacity_bytes() const { return partial_capacity_bytes_; }
  int64_t waiter_count() const {
    return whole_waiters_.load(std::memory_order_relaxed) +
           partial_waiters_.load(std::memory_order_relaxed);
  }

 private:
  // These ignore the waiters.
  static bool TryAdd(std::atomic<int64_t>* sum, int64_t bytes, int64_t limit_bytes);
  bool TryTake(int64_t bytes, MemoryUse use);
  bool anyone_waits() const {
    return whole_waiters_.load(std::memory_order_seq_cst) != 0 ||
           partial_waiters_.load(std::memory_order_seq_cst) != 0;
  }
  // Bytes came back that may serve those who wait; of them `passed_bytes` that a partial
  // waiter could have had.
  void OnReturned(int64_t passed_bytes);
  void ServeWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(MemoryWaiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FitsShare(const MemoryWaiter& partial) const {
    return partial.bytes <=
           partial_capacity_bytes_ - partial_bytes_.load(std::memory_order_seq_cst);
  }
  std::atomic<int64_t>& count_of(MemoryUse use) {
    return use == MemoryUse::kWhole ? whole_waiters_ : partial_waiters_;
  }
  IntrusiveList<MemoryWaiter, MemoryPool>& list_of(MemoryUse use)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return use == MemoryUse::kWhole ? whole_ : partial_;
  }

  const int64_t capacity_bytes_;
  const int64_t partial_capacity_bytes_;
  alignas(kCacheLineBytes) std::atomic<int64_t> used_bytes_{0};
  std::atomic<int64_t> partial_bytes_{0};  // of these
  // The lists' lengths, to be read without the lock. Whoever gives back lowers a sum
  // and then reads these, Wait raises one and then reads the sums, all seq_cst: one of
  // the two sees the other, so no waiter is left behind.
  std::atomic<int64_t> whole_waiters_{0};
  std::atomic<int64_t> partial_waiters_{0};
  // It is the first partial waiter's turn: no whole request may overtake it now. Who is
  // refused for it goes to Wait, which looks again.
  std::atomic<bool> partial_first_{false};

  Mutex mutex_;
  IntrusiveList<MemoryWaiter, MemoryPool> whole_ ABSL_GUARDED_BY(mutex_);
  IntrusiveList<MemoryWaiter, MemoryPool> partial_ ABSL_GUARDED_BY(mutex_);
  // What came back past the first partial waiter while it fitted its share.
  int64_t passed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_MEMORY_POOL_H_
