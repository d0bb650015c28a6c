// One reference to an object that counts its own: for things that several
// queues may hold at once, where shared_ptr would cost a second allocation and
// could not be made again from a plain pointer taken out of an intrusive link.
//
// Threads: AddReference/ReleaseReference any; a RefPtr object one at a time.
#ifndef GYRE_ENGINE_BASE_REF_PTR_H_
#define GYRE_ENGINE_BASE_REF_PTR_H_

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace gyre {

// Starts at zero references; deleted when the last one goes.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void AddReference() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void ReleaseReference() const {
    // acq_rel: what other holders wrote happens before the destructor.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~RefCounted() = default;

 private:
  mutable std::atomic<int32_t> references_{0};
};

template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  RefPtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit RefPtr(T* object) : object_(object) { Acquire(); }
  RefPtr(const RefPtr& other) : object_(other.object_) { Acquire(); }
  RefPtr(RefPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  RefPtr(RefPtr<U> other) : object_(other.Leak()) {}  // NOLINT(google-explicit-constructor)
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~RefPtr() {
    if (object_ != nullptr) object_->ReleaseReference();
  }

  // Takes over a reference that was counted already.
  static RefPtr Adopt(T* object) {
    RefPtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  // Gives the reference away, still counted.
  T* Leak() { return std::exchange(object_, nullptr); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const RefPtr& a, const RefPtr& b) { return a.object_ == b.object_; }

 private:
  void Acquire() {
    if (object_ != nullptr) object_->AddReference();
  }
  T* object_ = nullptr;
};

template <typename T, typename... Arguments>
RefPtr<T> MakeRef(Arguments&&... arguments) {
  return RefPtr<T>(new T(std::forward<Arguments>(arguments)...));
}

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_REF_PTR_H_
