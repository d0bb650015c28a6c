// Small stacks of free slots, one set for each thread that uses a pool, before
// the pool's shared lists: taking a slot and giving it back where it was taken
// touches no cache line of another thread. What a thread keeps is bounded by a
// class's capacity here; the rest goes through the shared lists in batches.
//
// A thread claims a cache on its first use of the pool and keeps it until it
// ends; the next to claim it, or whoever finds the shared list empty, gets what
// is in it. There are kCacheCount; threads beyond that use the shared lists.
//
// Threads: a cache its claimer; ForEachAbandoned and CachedCount any.
// Owns: the stacks, not the slots. The stacks outlive the pool while a thread
// that used it lives.
#ifndef GYRE_ENGINE_MEMORY_SLAB_CACHES_H_
#define GYRE_ENGINE_MEMORY_SLAB_CACHES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/limits.h"
#include "engine/memory/buffer.h"

namespace gyre {

class SlabCaches {
 public:
  static constexpr uint32_t kCacheCount = 64;
  static constexpr uint32_t kMaxSlots = 32;
  static constexpr size_t kMaxClasses = 7;  // the powers of two from kPageBytes to kSlabMaxBytes
  static_assert(kPageBytes << (kMaxClasses - 1) == kSlabMaxBytes);

  // The free slots of one class. Only the claimer changes it; the count is
  // atomic for gauges.
  struct Stack {
    BufferBlock* TryPop() {
      const uint32_t size = count.load(std::memory_order_relaxed);
      if (size == 0) return nullptr;
      count.store(size - 1, std::memory_order_relaxed);
      return blocks[size - 1];
    }
    bool TryPush(BufferBlock* block) {
      const uint32_t size = count.load(std::memory_order_relaxed);
      if (size == capacity) return false;
      blocks[size] = block;
      count.store(size + 1, std::memory_order_relaxed);
      return true;
    }

    std::atomic<uint32_t> count{0};
    uint32_t capacity = 0;
    BufferBlock* blocks[kMaxSlots];
  };

  struct alignas(kCacheLineBytes) Cache {
    // Acquire on claiming pairs with the release of whoever let it go.
    std::atomic<bool> claimed{false};
    std::unique_ptr<Stack[]> stacks;
  };

  // `capacities[i]`: how many slots of class i a thread may keep, <= kMaxSlots.
  explicit SlabCaches(const std::vector<uint32_t>& capacities);
  SlabCaches(const SlabCaches&) = delete;
  SlabCaches& operator=(const SlabCaches&) = delete;

  // The calling thread's, one for each class and behind them one that is always
  // empty and full. All are so where the thread's last use was of another pool:
  // Claim() then finds out more.
  Stack* Mine() { return current_.id == id_ ? current_.stacks : none_; }
  // The same after a search. Without room where all caches are claimed, or the
  // thread is ending.
  Stack* Claim();

  // Calls visit(cache) for each cache that was let go with slots in it, while
  // nobody else has it.
  template <typename Visitor>
  void ForEachAbandoned(Visitor visit) {
    if (shared_->abandoned.load(std::memory_order_acquire) <= 0) return;
    for (Cache& cache : shared_->caches) {
      if (!TryTake(&cache)) continue;
      visit(cache);
      LetGo(shared_.get(), &cache);
    }
  }

  // Slots of one class in all caches; exact while none is used.
  int64_t CachedCount(size_t class_index) const;

 private:
  struct Shared {
    uint64_t id = 0;
    size_t class_count = 0;
    std::atomic<int32_t> abandoned{0};  // unclaimed caches with slots in them
    std::vector<Cache> caches = std::vector<Cache>(kCacheCount);
  };
  // The pool a thread used last. Constant-initialised: read without a guard.
  struct Current {
    uint64_t id = 0;
    Stack* stacks = nullptr;
  };
  class ThreadClaims;

  static bool HasSlots(const Shared& shared, const Cache& cache);
  bool TryTake(Cache* cache);
  static void LetGo(Shared* shared, Cache* cache);

  // No room and nothing in it; never written.
  static Stack none_[kMaxClasses + 1];
  static thread_local constinit Current current_;
  const uint64_t id_;  // never used again, so that a dead pool's is not mistaken
  const std::shared_ptr<Shared> shared_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_SLAB_CACHES_H_
