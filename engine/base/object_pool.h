// Objects that are lent, used again, and made a few at a time: who lends one allocates
// only when more are out than ever before. The one that came back last is lent first,
// because it is in the cache.
//
// With kRests > 0 one that came back rests until so many others have: a pointer that
// somebody kept is found out before it points to another's object.
//
// Threads: one at a time.
// Owns: the objects, lent ones too.
#ifndef GYRE_ENGINE_BASE_OBJECT_POOL_H_
#define GYRE_ENGINE_BASE_OBJECT_POOL_H_

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace gyre {

template <typename T, size_t kMadeAtOnce, size_t kRests = 0>
class ObjectPool {
 public:
  ObjectPool() = default;
  ObjectPool(const ObjectPool&) = delete;
  ObjectPool& operator=(const ObjectPool&) = delete;

  // As it came back, or new.
  T* Acquire() {
    if (free_.empty()) Make();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }
  void Release(T* object) {
    if constexpr (kRests > 0) {
      object = std::exchange(resting_[next_resting_++ % kRests], object);
      if (object == nullptr) return;
    }
    free_.push_back(object);
  }

  size_t made() const { return made_.size() * kMadeAtOnce; }

 private:
  void Make() {
    made_.push_back(std::make_unique<T[]>(kMadeAtOnce));
    // So that Release never allocates.
    free_.reserve(made());
    for (size_t i = kMadeAtOnce; i > 0; --i) free_.push_back(&made_.back()[i - 1]);
  }

  std::vector<std::unique_ptr<T[]>> made_;
  std::vector<T*> free_;
  std::array<T*, kRests> resting_ = {};
  size_t next_resting_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_OBJECT_POOL_H_
