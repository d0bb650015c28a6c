// Address space for frames too large for the slab pool. A range costs nothing
// until its bytes are written: pages are backed one by one as the frame comes
// in, so a peer that announces 100 MiB and sends ten bytes holds one page. On
// return the pages go back to the kernel, but for a small cache.
//
// Threads: any; a short lock, taken once per large frame. Release of a range
// whose pages are given back takes time in proportion to them (madvise).
// Owns: the ranges. Every buffer must be back before it dies.
// Invariant: lent bytes <= capacity; pages that free ranges have, or that lent ones had
// when they were taken (nobody is charged for those), <= cache.
#ifndef GYRE_ENGINE_MEMORY_LARGE_RANGES_H_
#define GYRE_ENGINE_MEMORY_LARGE_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "engine/base/intrusive_list.h"
#include "engine/concurrent/mutex.h"
#include "engine/memory/buffer.h"

namespace gyre {

struct LargeRangesConfig {
  // Bound on the bytes lent at a time, each range rounded up to pages.
  int64_t capacity_bytes = int64_t{1} << 30;
  // Bound on the pages that are kept to be used again.
  int64_t cache_bytes = 4 << 20;
};

class LargeRanges final : public BufferOwner {
 public:
  // The largest range; Kafka's frame limit is below it.
  static constexpr uint32_t kMaxRangeBytes = 1u << 30;

  explicit LargeRanges(const LargeRangesConfig& config) : config_(config) {}
  LargeRanges(const LargeRanges&) = delete;
  LargeRanges& operator=(const LargeRanges&) = delete;
  ~LargeRanges();

  // A buffer of exactly `size_bytes` (> 0), not zeroed. Null (block() ==
  // nullptr) when the capacity is lent out, the size exceeds kMaxRangeBytes, or
  // the kernel refuses the address space.
  Buffer Acquire(uint32_t size_bytes);

  int64_t lent_bytes() const;
  // Pages that were kept, also while they are used again.
  int64_t cached_bytes() const;

  // BufferOwner; called by the last reference.
  void Release(BufferBlock* block) override;

 private:
  // Address space comes in powers of two, so that ranges can be used again.
  static constexpr int kMinLog2 = 19;
  static constexpr int kMaxLog2 = 30;
  static constexpr int kClassCount = kMaxLog2 - kMinLog2 + 1;
  // Free ranges of one class beyond this are unmapped.
  static constexpr size_t kMaxFreePerClass = 16;

  struct Range : IntrusiveListNode<LargeRanges> {
    BufferBlock block;
    int class_index = 0;
    // Pages below this offset may be backed.
    int64_t touched_bytes = 0;
    int64_t inherited_bytes = 0;  // of those, when it was lent
  };
  struct RangeClass {
    IntrusiveList<Range, LargeRanges> free;  // those with pages in front
    size_t free_count = 0;
  };

  static size_t MappedBytes(const Range& range) {
    return size_t{1} << (kMinLog2 + range.class_index);
  }
  std::unique_ptr<Range> Map(int class_index);
  static void Unmap(Range* range);

  const LargeRangesConfig config_;
  mutable Mutex mutex_;
  RangeClass classes_[kClassCount] ABSL_GUARDED_BY(mutex_);
  int64_t lent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t cached_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_LARGE_RANGES_H_
