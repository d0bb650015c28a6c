#include "engine/memory/slab_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr int64_t kMaxRegionBytes = int64_t{1} << 40;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// From a slot to the next. Large ones stay whole pages apart: they are taken and given back
// more slowly otherwise (measured, benchmarks/README.md).
size_t Stride(const SlabClassConfig& config) {
  constexpr uint32_t kLargeBytes = 64 << 10;
  return config.slot_bytes + (config.slot_bytes < kLargeBytes ? kCacheLineBytes : 0);
}

size_t ClassBytes(const SlabClassConfig& config) {
  return RoundUp(Stride(config) * config.slot_count, kPageBytes);
}

uint64_t Cookie(size_t class_index, uint32_t slot_index) {
  return (uint64_t{class_index} << 32) | slot_index;
}

// What one thread may keep of a class. None of a small one, whose last slots
// somebody else may need.
uint32_t CacheCapacity(uint32_t slot_count) {
  constexpr uint32_t kPart = 64;
  const uint32_t capacity = std::min(slot_count / kPart, SlabCaches::kMaxSlots);
  return capacity >= 2 ? capacity : 0;
}

absl::Status Check(const SlabPoolConfig& config) {
  if (config.run_bytes < 0) return absl::InvalidArgumentError("negative run bytes");
  int64_t total_bytes = config.run_bytes;
  for (size_t i = 0; i < config.classes.size(); ++i) {
    const SlabClassConfig& entry = config.classes[i];
    if (!std::has_single_bit(entry.slot_bytes) || entry.slot_bytes < kPageBytes ||
        entry.slot_bytes > kSlabMaxBytes || entry.slot_count == 0) {
      return absl::InvalidArgumentError(absl::StrCat("slab class of ", entry.slot_count,
                                                     " slots of ", entry.slot_bytes, " bytes"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (config.classes[j].slot_bytes == entry.slot_bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("two slab classes of ", entry.slot_bytes, " bytes"));
      }
    }
    total_bytes += static_cast<int64_t>(ClassBytes(entry));
  }
  if (total_bytes <= 0 || total_bytes > kMaxRegionBytes) {
    return absl::InvalidArgumentError(absl::StrCat("slab region of ", total_bytes, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

SlabPoolConfig SlabPoolConfig::Evenly(int64_t class_bytes, int64_t run_bytes) {
  SlabPoolConfig config;
  config.run_bytes = run_bytes;
  for (uint32_t slot_bytes = kPageBytes; slot_bytes <= kSlabMaxBytes; slot_bytes *= 4) {
    SlabClassConfig entry{slot_bytes, 1};
    const int64_t fit = class_bytes / 4 / static_cast<int64_t>(Stride(entry));
    entry.slot_count = static_cast<uint32_t>(std::max<int64_t>(1, fit));
    config.classes.push_back(entry);
  }
  return config;
}

absl::StatusOr<std::unique_ptr<SlabPool>> SlabPool::Create(const SlabPoolConfig& config) {
  if (absl::Status status = Check(config); !status.ok()) return status;
  std::vector<SlabClassConfig> classes = config.classes;
  std::sort(classes.begin(), classes.end(),
            [](const auto& a, const auto& b) { return a.slot_bytes > b.slot_bytes; });
  std::vector<uint32_t> capacities;
  for (auto entry = classes.rbegin(); entry != classes.rend(); ++entry) {
    capacities.push_back(CacheCapacity(entry->slot_count));
  }
  std::unique_ptr<SlabPool> pool(new SlabPool(capacities));
  pool->run_bytes_ = RoundUp(static_cast<size_t>(config.run_bytes), kSlabMaxBytes);
  size_t slots_bytes = 0;
  for (const SlabClassConfig& entry : classes) {
    slots_bytes += ClassBytes(entry);
  }
  pool->region_bytes_ = pool->run_bytes_ + slots_bytes;
  void* region = mmap(nullptr, pool->region_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("slab region of ", pool->region_bytes_, " bytes: ", std::strerror(errno)));
  }
  pool->region_ = static_cast<char*>(region);
  // A hint: kernels without transparent huge pages refuse it.
  if (config.huge_pages) madvise(region, pool->region_bytes_, MADV_HUGEPAGE);

  char* slots = pool->region_ + pool->run_bytes_;
  pool->classes_.resize(classes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    // Laid out largest first, kept smallest first.
    pool->AddClass(classes.size() - 1 - i, classes[i], slots);
    slots += ClassBytes(classes[i]);
  }
  for (size_t pages = 0; pages <= kMaxPages + 1; ++pages) {
    size_t class_index = 0;
    while (class_index < pool->classes_.size() &&
           pool->classes_[class_index]->slot_bytes < pages * kPageBytes) {
      ++class_index;
    }
    pool->class_of_pages_[pages] = static_cast<uint8_t>(class_index);
  }
  return pool;
}

SlabPool::~SlabPool() {
  for (size_t i = 0; i < classes_.size(); ++i) {
    DCHECK_EQ(LentCount(i), 0) << "buffers of " << classes_[i]->slot_bytes
                               << " bytes outlive their pool";
  }
  if (region_ != nullptr) {
    ASAN_UNPOISON_MEMORY_REGION(region_, region_bytes_);
    munmap(region_, region_bytes_);
  }
}

void SlabPool::AddClass(size_t class_index, const SlabClassConfig& config, char* base) {
  classes_[class_index] = std::make_unique<SlabClass>();
  SlabClass& slab = *classes_[class_index];
  slab.slot_bytes = config.slot_bytes;
  slab.slot_count = config.slot_count;
  slab.slots = std::make_unique<Slot[]>(slab.slot_count);
  const size_t stride = Stride(config);
  for (uint32_t slot = 0; slot < slab.slot_count; ++slot) {
    BufferBlock& block = slab.slots[slot];
    block.data = base + slot * stride;
    block.capacity_bytes = slab.slot_bytes;
    block.registered_index = RegisteredIndex(block.data, slab.slot_bytes);
    block.owner = this;
    block.cookie = Cookie(class_index, slot);
  }
  // Low addresses on top, so that a lightly used pool touches few pages.
  for (uint32_t slot = slab.slot_count; slot > 0; --slot) {
    BufferBlock* const block = &slab.slots[slot - 1];
    slab.Push(&block, 1);
  }
  ASAN_POISON_MEMORY_REGION(base, ClassBytes(config));
}

uint32_t SlabPool::SlabClass::Pop(BufferBlock** blocks, uint32_t max) {
  uint64_t head = free_head.load(std::memory_order_acquire);
  for (;;) {
    auto top = static_cast<uint32_t>(head);
    if (top == 0) return 0;
    // What is read here may be stale when another thread pops meanwhile; the tag
    // then fails the exchange. Indices are valid even so.
    uint32_t count = 0;
    while (top != 0 && count < max) {
      Slot& slot = slots[top - 1];
      blocks[count++] = &slot;
      top = slot.below.load(std::memory_order_relaxed);
    }
    const uint64_t desired = (((head >> 32) + 1) << 32) | top;
    if (free_head.compare_exchange_weak(head, desired, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      free_count.fetch_sub(count, std::memory_order_relaxed);
      return count;
    }
  }
}

// The first of `blocks` ends on top.
void SlabPool::SlabClass::Push(BufferBlock* const* blocks, uint32_t count) {
  const auto position = [](const BufferBlock* block) {
    return static_cast<uint32_t>(block->cookie) + 1;
  };
  for (uint32_t i = 0; i + 1 < count; ++i) {
    static_cast<Slot*>(blocks[i])->below.store(position(blocks[i + 1]), std::memory_order_relaxed);
  }
  Slot* const last = static_cast<Slot*>(blocks[count - 1]);
  free_count.fetch_add(count, std::memory_order_relaxed);
  uint64_t head = free_head.load(std::memory_order_relaxed);
  uint64_t desired;
  do {
    last->below.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    desired = (head & ~uint64_t{0xffff'ffff}) | position(blocks[0]);
    // Release: pairs with the acquire in Pop; hands over the slots' bytes and
    // their links.
  } while (!free_head.compare_exchange_weak(head, desired, std::memory_order_release,
                                            std::memory_order_relaxed));
}

BufferBlock* SlabPool::Refill(size_t class_index, SlabCaches::Stack& stack) {
  SlabClass& slab = *classes_[class_index];
  BufferBlock* blocks[SlabCaches::kMaxSlots];
  const uint32_t wanted = std::max<uint32_t>(1, stack.capacity / 2);
  uint32_t count = slab.Pop(blocks, wanted);
  if (count == 0) {
    caches_.ForEachAbandoned([this](SlabCaches::Cache& cache) {
      for (size_t i = 0; i < classes_.size(); ++i) {
        while (BufferBlock* block = cache.stacks[i].TryPop()) classes_[i]->Push(&block, 1);
      }
    });
    count = slab.Pop(blocks, wanted);
    if (count == 0) return nullptr;
  }
  // The lowest of them stays on top.
  while (count > 1) stack.TryPush(blocks[--count]);
  return blocks[0];
}

BufferBlock* SlabPool::TakeShared(size_t class_index) {
  SlabCaches::Stack* const mine = caches_.Claim();
  const size_t end = std::min(class_index + 2, classes_.size());
  for (; class_index < end; ++class_index) {
    BufferBlock* block = mine[class_index].TryPop();
    if (block == nullptr) block = Refill(class_index, mine[class_index]);
    if (block != nullptr) return block;
  }
  exhausted_count_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void SlabPool::Release(BufferBlock* block) {
  ASAN_POISON_MEMORY_REGION(block->data, block->capacity_bytes);
  if (!caches_.Mine()[block->cookie >> 32].TryPush(block)) GiveShared(block);
}

void SlabPool::GiveShared(BufferBlock* block) {
  SlabCaches::Stack& stack = caches_.Claim()[block->cookie >> 32];
  if (stack.TryPush(block)) return;
  SlabClass& slab = *classes_[block->cookie >> 32];
  if (stack.capacity == 0) return slab.Push(&block, 1);
  // The half that was used longest ago goes to the shared list.
  const uint32_t half = (stack.capacity + 1) / 2;
  slab.Push(stack.blocks, half);
  std::copy(stack.blocks + half, stack.blocks + stack.capacity, stack.blocks);
  stack.count.store(stack.capacity - half, std::memory_order_relaxed);
  stack.TryPush(block);
}

int64_t SlabPool::LentCount(size_t class_index) const {
  const SlabClass& slab = *classes_[class_index];
  return int64_t{slab.slot_count} - slab.free_count.load(std::memory_order_acquire) -
         caches_.CachedCount(class_index);
}

char* SlabPool::CarveRun(uint32_t slot_bytes, uint32_t count) {
  const size_t alignment = std::min<size_t>(slot_bytes, kSlabMaxBytes);
  const size_t run_bytes = size_t{slot_bytes} * count;
  size_t used = run_used_bytes_.load(std::memory_order_relaxed);
  size_t start;
  do {
    start = RoundUp(used, alignment);
    if (start > run_bytes_ || run_bytes > run_bytes_ - start) return nullptr;
  } while (
      !run_used_bytes_.compare_exchange_weak(used, start + run_bytes, std::memory_order_relaxed));
  return region_ + start;
}

std::vector<iovec> SlabPool::RegisteredBuffers() const {
  std::vector<iovec> pieces;
  for (size_t from = 0; from < region_bytes_; from += kRegisteredBufferMaxBytes) {
    pieces.push_back(
        {region_ + from, std::min<size_t>(kRegisteredBufferMaxBytes, region_bytes_ - from)});
  }
  return pieces;
}

int32_t SlabPool::RegisteredIndex(const char* address, size_t size_bytes) const {
  if (address < region_ || address >= region_ + region_bytes_) return -1;
  const auto offset = static_cast<size_t>(address - region_);
  const size_t index = offset / kRegisteredBufferMaxBytes;
  return (offset + size_bytes - 1) / kRegisteredBufferMaxBytes == index
             ? static_cast<int32_t>(index)
             : -1;
}

std::vector<SlabPool::ClassUsage> SlabPool::Usage() const {
  std::vector<ClassUsage> usage;
  for (size_t i = 0; i < classes_.size(); ++i) {
    const int64_t lent = std::clamp<int64_t>(LentCount(i), 0, classes_[i]->slot_count);
    usage.push_back(
        {classes_[i]->slot_bytes, classes_[i]->slot_count, static_cast<uint32_t>(lent)});
  }
  return usage;
}

}  // namespace gyre
