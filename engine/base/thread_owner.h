// A capability that a thread holds by being the one that called Bind(). What
// one thread owns is declared ABSL_GUARDED_BY(owner_); the methods that only
// the owner may call start with owner_.Assert(), or are declared
// GYRE_REQUIRES_OWNER(owner_). clang checks the declarations, and builds with
// assertions check the thread.
//
// Threads: Bind and Unbind the owner; Assert any.
#ifndef GYRE_ENGINE_BASE_THREAD_OWNER_H_
#define GYRE_ENGINE_BASE_THREAD_OWNER_H_

#include <atomic>
#include <cassert>
#include <thread>

#if defined(__clang__)
#define GYRE_INTERNAL_ATTRIBUTE(x) __attribute__((x))
#else
#define GYRE_INTERNAL_ATTRIBUTE(x)
#endif

#define GYRE_REQUIRES_OWNER(owner) GYRE_INTERNAL_ATTRIBUTE(requires_capability(owner))

namespace gyre {

class GYRE_INTERNAL_ATTRIBUTE(capability("thread")) ThreadOwner {
 public:
  ThreadOwner() = default;
  ThreadOwner(const ThreadOwner&) = delete;
  ThreadOwner& operator=(const ThreadOwner&) = delete;

  // The calling thread is the owner from now on. There is none yet.
  void Bind() {
    assert(owner_.load(std::memory_order_relaxed) == std::thread::id());
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  // Called by the owner; the next Bind may come from another thread, ordered
  // after this by whatever hands the object over.
  void Unbind() {
    assert(IsCurrent());
    owner_.store(std::thread::id(), std::memory_order_relaxed);
  }
  bool IsCurrent() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  // Before Bind every thread passes: whoever builds the object is alone with it.
  void Assert() const GYRE_INTERNAL_ATTRIBUTE(assert_capability(this)) {
    assert(IsCurrent() || owner_.load(std::memory_order_relaxed) == std::thread::id());
  }

 private:
  std::atomic<std::thread::id> owner_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_THREAD_OWNER_H_
