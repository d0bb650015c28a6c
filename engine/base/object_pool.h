// Objects that are lent, used again, and made a few at a time: who lends one allocates
// only when more are out than ever before. The one that came back last is lent first,
// because it is in the cache.
//
// Threads: one at a time.
// Owns: the objects, lent ones too.
#ifndef GYRE_ENGINE_BASE_OBJECT_POOL_H_
#define GYRE_ENGINE_BASE_OBJECT_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace gyre {

template <typename T, size_t kMadeAtOnce>
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
  void Release(T* object) { free_.push_back(object); }

  // Those that are lent and those that are not.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const std::unique_ptr<T[]>& objects : made_) {
      for (size_t i = 0; i < kMadeAtOnce; ++i) visit(objects[i]);
    }
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
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_OBJECT_POOL_H_
