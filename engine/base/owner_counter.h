// A count that one thread raises and any thread reads: a plain addition on its own
// cache line for the one, never torn for the others.
//
// Threads: changes the owner; reads and copies any.
#ifndef GYRE_ENGINE_BASE_OWNER_COUNTER_H_
#define GYRE_ENGINE_BASE_OWNER_COUNTER_H_

#include <atomic>
#include <cstdint>

namespace gyre {

class OwnerCounter {
 public:
  OwnerCounter() = default;
  OwnerCounter(const OwnerCounter& other) : value_(other.Value()) {}
  OwnerCounter& operator=(const OwnerCounter& other) {
    value_.store(other.Value(), std::memory_order_relaxed);
    return *this;
  }

  OwnerCounter& operator+=(uint64_t count) {
    value_.store(Value() + count, std::memory_order_relaxed);
    return *this;
  }
  OwnerCounter& operator++() { return *this += 1; }

  uint64_t Value() const { return value_.load(std::memory_order_relaxed); }
  operator uint64_t() const { return Value(); }  // NOLINT: it reads as the number it is

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_OWNER_COUNTER_H_
