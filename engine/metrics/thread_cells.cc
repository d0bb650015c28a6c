#include "engine/metrics/thread_cells.h"

#include <sys/mman.h>

#include "absl/base/thread_annotations.h"
#include "engine/concurrent/mutex.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Which slots live threads hold. A property of the process's threads and not of
// one registry, hence static.
class SlotTable {
 public:
  int Take() {
    MutexLock lock(mutex_);
    for (int slot = ThreadCells::kSharedSlot + 1; slot < ThreadCells::kMaxThreads; ++slot) {
      if (taken_[slot]) continue;
      taken_[slot] = true;
      return slot;
    }
    return ThreadCells::kSharedSlot;
  }
  // The lock orders this thread's additions before those of the slot's next holder.
  void Return(int slot) {
    MutexLock lock(mutex_);
    taken_[slot] = false;
  }

 private:
  Mutex mutex_;
  bool taken_[ThreadCells::kMaxThreads] ABSL_GUARDED_BY(mutex_) = {};
};

SlotTable& Slots() {
  // Not destroyed: threads may end after the static destructors.
  static SlotTable* const table = new SlotTable;
  return *table;
}

struct SlotHolder {
  int slot = ThreadCells::kSharedSlot;
  ~SlotHolder() {
    if (slot != ThreadCells::kSharedSlot) Slots().Return(slot);
  }
};

}  // namespace

ThreadCells::ThreadCells(uint32_t capacity) : capacity_(capacity) {}

ThreadCells::~ThreadCells() {
  for (auto& array : arrays_) {
    std::atomic<int64_t>* cells = array.load(std::memory_order_acquire);
    if (cells != nullptr) munmap(cells, ArrayBytes());
  }
}

uint32_t ThreadCells::Allocate(uint32_t count) {
  const uint32_t first = allocated_.load(std::memory_order_relaxed);
  CHECK_LE(count, capacity_ - first) << "more metrics than the registry was made for";
  allocated_.store(first + count, std::memory_order_relaxed);
  return first;
}

void ThreadCells::AddTo(uint32_t first, uint32_t count, int64_t* out) const {
  for (const auto& array : arrays_) {
    const std::atomic<int64_t>* cells = array.load(std::memory_order_acquire);
    if (cells == nullptr) continue;
    for (uint32_t i = 0; i < count; ++i) {
      out[i] += cells[first + i].load(std::memory_order_relaxed);
    }
  }
}

int ThreadCells::TakeSlot() {
  thread_local SlotHolder holder;
  holder.slot = Slots().Take();
  return holder.slot;
}

std::atomic<int64_t>* ThreadCells::MapArray(int slot) {
  void* memory = mmap(nullptr, ArrayBytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED) << "no address space for metrics";
  auto* cells = static_cast<std::atomic<int64_t>*>(memory);  // zero pages are zero atomics
  std::atomic<int64_t>* expected = nullptr;
  if (!arrays_[slot].compare_exchange_strong(expected, cells, std::memory_order_acq_rel)) {
    // Only the shared slot has two mappers.
    munmap(memory, ArrayBytes());
    return expected;
  }
  return cells;
}

}  // namespace gyre
