// A bounded queue for any number of producers and consumers, without locks:
// Vyukov's array queue, where each cell carries the turn at which it may next
// be written or read. Full is an answer, not a wait.
//
// Threads: any; lock-free. A producer that is preempted between claiming its
// cell and filling it holds back only the consumers of that cell and later ones.
// Owns: the elements between push and pop.
// Invariant: elements of one producer come out in the order it pushed them.
#ifndef GYRE_ENGINE_CONCURRENT_MPMC_QUEUE_H_
#define GYRE_ENGINE_CONCURRENT_MPMC_QUEUE_H_

#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/limits.h"

namespace gyre {

template <typename T>
class MpmcQueue {
 public:
  // `capacity` is rounded up to a power of two, at least 2.
  explicit MpmcQueue(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? size_t{2} : capacity) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }
  MpmcQueue(const MpmcQueue&) = delete;
  MpmcQueue& operator=(const MpmcQueue&) = delete;

  // False when full; `value` is then untouched.
  bool TryPush(T&& value) {
    uint64_t position = push_position_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const auto lead = static_cast<int64_t>(cell.turn.load(std::memory_order_acquire) - position);
      if (lead == 0) {
        if (push_position_.compare_exchange_weak(position, position + 1,
                                                 std::memory_order_relaxed)) {
          cell.value = std::move(value);
          // Release: pairs with the acquire load in TryPop.
          cell.turn.store(position + 1, std::memory_order_release);
          return true;
        }
      } else if (lead < 0) {
        return false;
      } else {
        position = push_position_.load(std::memory_order_relaxed);
      }
    }
  }
  bool TryPush(const T& value) {
    T copy(value);
    return TryPush(std::move(copy));
  }

  // False when empty, or when the next cell is claimed and not filled yet, which may hide
  // filled ones: who sleeps on false looks at SizeApprox, too.
  bool TryPop(T& value) {
    uint64_t position = pop_position_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const auto lead =
          static_cast<int64_t>(cell.turn.load(std::memory_order_acquire) - (position + 1));
      if (lead == 0) {
        if (pop_position_.compare_exchange_weak(position, position + 1,
                                                std::memory_order_relaxed)) {
          value = std::move(cell.value);
          // Release: pairs with the acquire load in TryPush, one lap later.
          cell.turn.store(position + mask_ + 1, std::memory_order_release);
          return true;
        }
      } else if (lead < 0) {
        return false;
      } else {
        position = pop_position_.load(std::memory_order_relaxed);
      }
    }
  }

  size_t capacity() const { return mask_ + 1; }
  // Claimed positions, exact when nobody is pushing or popping; never above
  // capacity(). For gauges and for heuristics.
  size_t SizeApprox() const {
    const uint64_t popped = pop_position_.load(std::memory_order_relaxed);
    const uint64_t pushed = push_position_.load(std::memory_order_relaxed);
    if (pushed <= popped) return 0;
    return pushed - popped > capacity() ? capacity() : pushed - popped;
  }

 private:
  struct Cell {
    // position: free for the push of that position; position + 1: filled for
    // the pop of that position.
    std::atomic<uint64_t> turn;
    T value{};
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kCacheLineBytes) std::atomic<uint64_t> push_position_{0};
  alignas(kCacheLineBytes) std::atomic<uint64_t> pop_position_{0};
  char padding_[kCacheLineBytes - sizeof(std::atomic<uint64_t>)] = {};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_MPMC_QUEUE_H_
