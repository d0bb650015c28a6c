#include "engine/memory/large_ranges.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/limits.h"
#include "glog/logging.h"

namespace gyre {
namespace {

int64_t RoundUpToPages(uint32_t size_bytes) {
  return (int64_t{size_bytes} + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

LargeRanges::~LargeRanges() {
  MutexLock lock(mutex_);
  DCHECK_EQ(lent_bytes_, 0) << "large buffers outlive their pool";
  for (RangeClass& range_class : classes_) {
    while (Range* range = range_class.free.PopFront()) Unmap(range);
  }
}

Buffer LargeRanges::Acquire(uint32_t size_bytes) {
  if (size_bytes == 0 || size_bytes > kMaxRangeBytes) return Buffer();
  const int class_index = std::max(0, static_cast<int>(std::bit_width(size_bytes - 1)) - kMinLog2);
  const int64_t charged_bytes = RoundUpToPages(size_bytes);
  Range* range;
  {
    MutexLock lock(mutex_);
    if (charged_bytes > config_.capacity_bytes - lent_bytes_) return Buffer();
    lent_bytes_ += charged_bytes;
    RangeClass& range_class = classes_[class_index];
    range = range_class.free.PopFront();
    if (range != nullptr) {
      --range_class.free_count;
      range->inherited_bytes = range->touched_bytes;
    }
  }
  if (range == nullptr) {
    range = Map(class_index).release();
    if (range == nullptr) {
      MutexLock lock(mutex_);
      lent_bytes_ -= charged_bytes;
      return Buffer();
    }
  }
  range->touched_bytes = std::max(range->touched_bytes, charged_bytes);
  range->block.capacity_bytes = static_cast<uint32_t>(charged_bytes);
  range->block.references.store(1, std::memory_order_relaxed);
  return Buffer::Adopt(&range->block, range->block.data, size_bytes);
}

void LargeRanges::Release(BufferBlock* block) {
  auto* range = reinterpret_cast<Range*>(block->cookie);
  bool keep_pages;
  {
    MutexLock lock(mutex_);
    lent_bytes_ -= block->capacity_bytes;
    cached_bytes_ -= std::exchange(range->inherited_bytes, 0);
    keep_pages = range->touched_bytes <= config_.cache_bytes - cached_bytes_;
    if (keep_pages) {
      cached_bytes_ += range->touched_bytes;
      RangeClass& range_class = classes_[range->class_index];
      range_class.free.PushFront(range);
      ++range_class.free_count;
    }
  }
  if (keep_pages) return;
  // Outside the lock: freeing 100 MiB of pages takes milliseconds.
  madvise(block->data, static_cast<size_t>(range->touched_bytes), MADV_DONTNEED);
  range->touched_bytes = 0;
  {
    MutexLock lock(mutex_);
    RangeClass& range_class = classes_[range->class_index];
    if (range_class.free_count < kMaxFreePerClass) {
      range_class.free.PushBack(range);
      ++range_class.free_count;
      return;
    }
  }
  Unmap(range);
}

std::unique_ptr<LargeRanges::Range> LargeRanges::Map(int class_index) {
  auto range = std::make_unique<Range>();
  range->class_index = class_index;
  void* memory = mmap(nullptr, MappedBytes(*range), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Who lends it charges the pages that came, not what the kernel would put around them.
  madvise(memory, MappedBytes(*range), MADV_NOHUGEPAGE);
  range->block.data = static_cast<char*>(memory);
  range->block.owner = this;
  range->block.cookie = reinterpret_cast<uint64_t>(range.get());
  return range;
}

void LargeRanges::Unmap(Range* range) {
  munmap(range->block.data, MappedBytes(*range));
  delete range;
}

int64_t LargeRanges::lent_bytes() const {
  MutexLock lock(mutex_);
  return lent_bytes_;
}

int64_t LargeRanges::cached_bytes() const {
  MutexLock lock(mutex_);
  return cached_bytes_;
}

}  // namespace gyre
