// A queue that keeps its room: once it has held as many elements as ever wait at a
// time it allocates no more, where a std::deque takes a block for every few pushes.
//
// Threads: one at a time.
#ifndef GYRE_ENGINE_BASE_FIFO_H_
#define GYRE_ENGINE_BASE_FIFO_H_

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace gyre {

template <typename T>
class Fifo {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  // Room for `count` and more.
  void Reserve(size_t count) {
    while (ring_.size() < count) Grow();
  }
  void PushBack(T value) {
    if (count_ == ring_.size()) Grow();
    ring_[Index(count_++)] = std::move(value);
  }
  // Not of an empty queue, nor the next.
  T& front() { return (*this)[0]; }
  T PopFront() {
    assert(!empty());
    T value = std::exchange(ring_[first_], T());
    first_ = Index(1);
    --count_;
    return value;
  }

  // [0] is the front.
  T& operator[](size_t i) {
    assert(i < count_);
    return ring_[Index(i)];
  }
  const T& operator[](size_t i) const {
    assert(i < count_);
    return ring_[Index(i)];
  }
  bool Contains(const T& value) const {
    for (size_t i = 0; i < count_; ++i) {
      if ((*this)[i] == value) return true;
    }
    return false;
  }
  // Takes out what equals `value`; the others stay in their order. O(n).
  void Remove(const T& value) {
    for (size_t left = count_; left > 0; --left) {
      T element = PopFront();
      if (!(element == value)) PushBack(std::move(element));
    }
  }
  void Clear() {
    while (!empty()) PopFront();
  }

 private:
  static constexpr size_t kLeast = 8;

  size_t Index(size_t i) const { return (first_ + i) & (ring_.size() - 1); }
  void Grow() {
    std::vector<T> larger(ring_.empty() ? kLeast : 2 * ring_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> ring_;  // a power of two
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_FIFO_H_
