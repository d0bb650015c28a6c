// The storage under every metric: an array of 64-bit cells per thread. A thread
// adds to its own array, with a plain load and store and no other writer on its
// cache lines; a reader sums one cell over all arrays.
//
// Threads: Add any; Sum any, approximate while others add; Allocate one at a
// time. A thread's first Add maps its array; nothing is allocated after it.
// Threads beyond kMaxThreads share one array and pay for an atomic addition.
// Owns: the arrays. A thread that ends leaves its counts in place.
#ifndef GYRE_ENGINE_METRICS_THREAD_CELLS_H_
#define GYRE_ENGINE_METRICS_THREAD_CELLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/base/limits.h"

namespace gyre {

class ThreadCells {
 public:
  static constexpr int kMaxThreads = 256;
  // Slot of the threads that found no other.
  static constexpr int kSharedSlot = 0;

  // Address space for `capacity` cells per thread; pages follow use.
  explicit ThreadCells(uint32_t capacity);
  ThreadCells(const ThreadCells&) = delete;
  ThreadCells& operator=(const ThreadCells&) = delete;
  ~ThreadCells();

  // The first of `count` adjacent cells, all zero. CHECKs that they fit.
  uint32_t Allocate(uint32_t count);
  uint32_t allocated_count() const { return allocated_.load(std::memory_order_relaxed); }

  void Add(uint32_t cell, int64_t delta) {
    const int slot = CurrentSlot();
    std::atomic<int64_t>* cells = arrays_[slot].load(std::memory_order_acquire);
    if (cells == nullptr) [[unlikely]]
      cells = MapArray(slot);
    if (slot != kSharedSlot) [[likely]] {
      // The only writer: no read-modify-write is needed.
      const int64_t value = cells[cell].load(std::memory_order_relaxed);
      cells[cell].store(value + delta, std::memory_order_relaxed);
    } else {
      cells[cell].fetch_add(delta, std::memory_order_relaxed);
    }
  }

  int64_t Sum(uint32_t cell) const {
    int64_t sum = 0;
    AddTo(cell, 1, &sum);
    return sum;
  }
  // Adds the sums of `count` cells from `first` on to out[0 … count).
  void AddTo(uint32_t first, uint32_t count, int64_t* out) const;

  // This thread's array index, its own until it ends.
  static int CurrentSlot() {
    // Trivial to access; the first use of a thread takes a slot.
    if (current_slot_ < 0) [[unlikely]]
      current_slot_ = TakeSlot();
    return current_slot_;
  }

 private:
  static int TakeSlot();
  std::atomic<int64_t>* MapArray(int slot);
  size_t ArrayBytes() const { return size_t{capacity_} * sizeof(int64_t); }

  static inline thread_local constinit int current_slot_ = -1;

  const uint32_t capacity_;
  std::atomic<uint32_t> allocated_{0};
  // Written once, from null.
  std::atomic<std::atomic<int64_t>*> arrays_[kMaxThreads] = {};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_THREAD_CELLS_H_
