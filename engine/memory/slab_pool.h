// Fixed-size slots in a few size classes, cut from one mapping, so that the
// whole of it can be registered with every ring once and a buffer's address
// says which registered buffer covers it, if one does.
//
//   region: [ runs | class of the largest slots | … | class of the smallest ]
//
// Behind a slot of less than 64 KiB lies a cache line that is nobody's: whole pages apart,
// they would compete for the same few lines of the caches. A class begins at a page. Runs
// are contiguous pieces for provided-buffer rings; they are carved at start-up and never
// come back.
//
// The region is registered in pieces as large as may be (1 GiB), whatever the classes: the
// kernel takes one of huge pages as a few large parts, and many small parts of a zero-copy
// send are more than a small receive window has room for. A slot that straddles two is sent
// as memory that is not registered.
//
// Each thread keeps a few free slots of each class to itself (slab_caches.h), so
// that a class may look exhausted to one thread while others keep up to a part in
// 64 of it each.
//
// Threads: Allocate and the return of buffers any, lock-free; CarveRun any.
// Owns: the mapping and the blocks that describe it. Every buffer must be back
// before it dies.
// Invariant: each slot is in its class's free list, in a thread's cache, or lent.
#ifndef GYRE_ENGINE_MEMORY_SLAB_POOL_H_
#define GYRE_ENGINE_MEMORY_SLAB_POOL_H_

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/limits.h"
#include "engine/memory/buffer.h"
#include "engine/memory/poison.h"
#include "engine/memory/slab_caches.h"

namespace gyre {

struct SlabClassConfig {
  uint32_t slot_bytes = 0;  // a power of two, kPageBytes … kSlabMaxBytes
  uint32_t slot_count = 0;
};

struct SlabPoolConfig {
  std::vector<SlabClassConfig> classes;  // different sizes, in any order
  int64_t run_bytes = 0;                 // kept for CarveRun
  bool huge_pages = true;                // a hint (MADV_HUGEPAGE)

  // About the same number of bytes, together class_bytes to a page, for each of 4, 16, 64
  // and 256 KiB; but at least one slot of each.
  static SlabPoolConfig Evenly(int64_t class_bytes, int64_t run_bytes);
};

class SlabPool final : public BufferOwner {
 public:
  // INVALID_ARGUMENT for a bad class, RESOURCE_EXHAUSTED when the address
  // space is refused. Pages are backed as they are touched.
  static absl::StatusOr<std::unique_ptr<SlabPool>> Create(const SlabPoolConfig& config);
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;
  ~SlabPool();

  // A buffer of exactly `size_bytes` in the smallest slot that holds it, or in
  // one of the next class when that is exhausted. Null (block() == nullptr) when
  // both are, or when it exceeds the largest class: the caller then takes
  // Buffer::Allocate or memory/large_ranges. The bytes are not zeroed.
  Buffer Allocate(uint32_t size_bytes) {
    const size_t pages = (size_t{size_bytes} + kPageBytes - 1) / kPageBytes;
    const size_t class_index = class_of_pages_[std::min(pages, kMaxPages + 1)];
    BufferBlock* block = caches_.Mine()[class_index].TryPop();
    if (block == nullptr) [[unlikely]] {
      block = TakeShared(class_index);
      if (block == nullptr) return Buffer();
    }
    return Lend(block, size_bytes);
  }

  // `count` adjacent slots of `slot_bytes` (a power of two), aligned to
  // min(slot_bytes, kSlabMaxBytes); null when the rest of run_bytes is too small.
  char* CarveRun(uint32_t slot_bytes, uint32_t count);

  // What to register with a ring: the region in pieces of at most 1 GiB. A
  // block's registered_index is an index into this, or -1.
  std::vector<iovec> RegisteredBuffers() const;
  // Of the piece that has all these bytes, of which there are some; -1 when none has.
  int32_t RegisteredIndex(const char* address, size_t size_bytes) const;

  char* region() const { return region_; }
  size_t region_bytes() const { return region_bytes_; }

  struct ClassUsage {
    uint32_t slot_bytes = 0;
    uint32_t slot_count = 0;
    uint32_t lent_count = 0;
  };
  // Smallest class first; approximate while others allocate.
  std::vector<ClassUsage> Usage() const;
  // How many Allocate calls found nothing.
  uint64_t exhausted_count() const { return exhausted_count_.load(std::memory_order_relaxed); }

  // BufferOwner; called by the last reference.
  void Release(BufferBlock* block) override;

 private:
  // A block and its place in the shared free list; a cache line each, because
  // neighbours belong to different threads.
  struct alignas(kCacheLineBytes) Slot : BufferBlock {
    // 1 + the index of the free slot below; 0 ends the list.
    std::atomic<uint32_t> below{0};
  };

  // The shared free list of one size. Slots move in chains, one exchange each.
  struct SlabClass {
    uint32_t slot_bytes = 0;
    uint32_t slot_count = 0;
    std::unique_ptr<Slot[]> slots;
    // tag:32 | 1 + index:32 of the top free slot. The tag changes with every
    // pop, so that a slot that left and came back is not mistaken for itself.
    alignas(kCacheLineBytes) std::atomic<uint64_t> free_head{0};
    std::atomic<int64_t> free_count{0};

    // Up to `max` slots, which are put into `blocks`; how many.
    uint32_t Pop(BufferBlock** blocks, uint32_t max);
    void Push(BufferBlock* const* blocks, uint32_t count);
  };

  // `cache_capacities`: what each thread may keep of a class, the smallest first.
  explicit SlabPool(const std::vector<uint32_t>& cache_capacities) : caches_(cache_capacities) {}
  static Buffer Lend(BufferBlock* block, uint32_t size_bytes);
  // Makes a class of the memory at `base`.
  void AddClass(size_t class_index, const SlabClassConfig& config, char* base);
  // Where the calling thread's own stack has none. Null: exhausted.
  BufferBlock* TakeShared(size_t class_index);
  BufferBlock* Refill(size_t class_index, SlabCaches::Stack& stack);
  // Where it is full.
  void GiveShared(BufferBlock* block);
  int64_t LentCount(size_t class_index) const;

  char* region_ = nullptr;
  size_t region_bytes_ = 0;
  size_t run_bytes_ = 0;
  std::atomic<size_t> run_used_bytes_{0};
  std::vector<std::unique_ptr<SlabClass>> classes_;  // smallest first
  // The smallest class that holds so many pages, or classes_.size().
  static constexpr size_t kMaxPages = kSlabMaxBytes / kPageBytes;
  uint8_t class_of_pages_[kMaxPages + 2] = {};
  SlabCaches caches_;
  std::atomic<uint64_t> exhausted_count_{0};
};

inline Buffer SlabPool::Lend(BufferBlock* block, uint32_t size_bytes) {
  ASAN_UNPOISON_MEMORY_REGION(block->data, block->capacity_bytes);
  block->references.store(1, std::memory_order_relaxed);
  return Buffer::Adopt(block, block->data, size_bytes);
}

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_SLAB_POOL_H_
