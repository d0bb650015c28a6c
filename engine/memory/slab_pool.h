// Fixed-size slots in a few size classes, cut from one mapping, so that the
// whole of it can be registered with every ring once and a buffer's address
// says which registered buffer covers it.
//
//   region: [ runs | class of the largest slots | … | class of the smallest ]
//
// A slot's offset is a multiple of its size, so no slot straddles two
// registered buffers of 1 GiB. Runs are contiguous pieces for provided-buffer
// rings; they are carved at start-up and never come back.
//
// Threads: Allocate and the return of buffers any, lock-free; CarveRun any.
// Owns: the mapping and the blocks that describe it. Every buffer must be back
// before it dies.
// Invariant: each slot is either in its class's free list or lent.
#ifndef GYRE_ENGINE_MEMORY_SLAB_POOL_H_
#define GYRE_ENGINE_MEMORY_SLAB_POOL_H_

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/limits.h"
#include "engine/memory/buffer.h"

namespace gyre {

struct SlabClassConfig {
  uint32_t slot_bytes = 0;  // a power of two, kPageBytes … kSlabMaxBytes
  uint32_t slot_count = 0;
};

struct SlabPoolConfig {
  std::vector<SlabClassConfig> classes;  // different sizes, in any order
  int64_t run_bytes = 0;                 // kept for CarveRun
  bool huge_pages = true;                // a hint (MADV_HUGEPAGE)

  // The same number of bytes for each of 4, 16, 64 and 256 KiB; at least one
  // slot of each.
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
  Buffer Allocate(uint32_t size_bytes);

  // `count` adjacent slots of `slot_bytes` (a power of two), aligned to
  // min(slot_bytes, kSlabMaxBytes); null when the rest of run_bytes is too small.
  char* CarveRun(uint32_t slot_bytes, uint32_t count);

  // What to register with a ring: the region in pieces of at most 1 GiB. A
  // block's registered_index is an index into this.
  std::vector<iovec> RegisteredBuffers() const;
  // For memory of a run; -1 outside the region.
  int32_t RegisteredIndex(const char* address) const;

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
  struct SlabClass {
    uint32_t slot_bytes = 0;
    uint32_t slot_count = 0;
    std::unique_ptr<BufferBlock[]> blocks;
    // next[i]: 1 + the index of the free slot below slot i; 0 ends the list.
    std::unique_ptr<std::atomic<uint32_t>[]> next;
    // tag:32 | 1 + index:32 of the top free slot. The tag changes with every
    // pop, so that a slot that left and came back is not mistaken for itself.
    alignas(kCacheLineBytes) std::atomic<uint64_t> free_head{0};
    alignas(kCacheLineBytes) std::atomic<int64_t> lent_count{0};

    BufferBlock* TryPop();
    void Push(uint32_t index);
  };

  SlabPool() = default;

  char* region_ = nullptr;
  size_t region_bytes_ = 0;
  size_t run_bytes_ = 0;
  std::atomic<size_t> run_used_bytes_{0};
  std::vector<std::unique_ptr<SlabClass>> classes_;  // smallest first
  std::atomic<uint64_t> exhausted_count_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_SLAB_POOL_H_
