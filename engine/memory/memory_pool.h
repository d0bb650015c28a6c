// Bounds the bytes held for requests that were read but not yet answered, and
// for their responses. It counts; it holds no memory. Who cannot reserve stops
// reading from its connection and may join a FIFO: bytes that come back go to
// its head first, so that a large waiter is not starved by small ones.
//
// Threads: any. Reserve and release are lock-free while nobody waits.
// Owns: nothing.
// Invariant: 0 <= used <= capacity; each true TryReserve and each grant is
// matched by one Release of the same bytes.
#ifndef GYRE_ENGINE_MEMORY_MEMORY_POOL_H_
#define GYRE_ENGINE_MEMORY_MEMORY_POOL_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "engine/base/intrusive_list.h"
#include "engine/base/limits.h"
#include "engine/concurrent/mutex.h"

namespace gyre {

class MemoryPool;

// Waits for bytes. Stays alive until it was granted or cancelled.
struct MemoryWaiter : IntrusiveListNode<MemoryPool> {
  int64_t bytes = 0;
  // The bytes are reserved for the waiter. Called once, on the thread that
  // released them, under the pool's lock: it marks or posts and must not call
  // the pool.
  void (*on_granted)(MemoryWaiter* waiter) = nullptr;
};

class MemoryPool {
 public:
  static constexpr int64_t kUnbounded = INT64_MAX;

  explicit MemoryPool(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // False when the bytes do not fit, or when somebody waits already.
  bool TryReserve(int64_t bytes);
  void Release(int64_t bytes);

  // Queues the waiter; on_granted may run before this returns. False (and not
  // queued) when waiter->bytes exceeds the capacity: it would wait for ever.
  bool Wait(MemoryWaiter* waiter);
  // True: it will not be granted any more. False: it was, and holds its bytes.
  bool CancelWait(MemoryWaiter* waiter);

  int64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t waiter_count() const { return waiter_count_.load(std::memory_order_relaxed); }

 private:
  // Ignores the waiters.
  bool TryTake(int64_t bytes);
  void ServeWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t capacity_bytes_;
  alignas(kCacheLineBytes) std::atomic<int64_t> used_bytes_{0};
  // The list's length, to be read without the lock. Release lowers used_bytes_
  // and then reads this, Wait raises this and then reads used_bytes_, all
  // seq_cst: one of the two sees the other, so no waiter is left behind.
  std::atomic<int64_t> waiter_count_{0};
  Mutex mutex_;
  IntrusiveList<MemoryWaiter, MemoryPool> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_MEMORY_POOL_H_
