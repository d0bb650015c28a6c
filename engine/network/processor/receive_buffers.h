// The provided buffers of one ring: which are lent, and how they come back. A
// buffer leaves with a receive completion, may be sliced into frames that travel
// to handlers, and is given back to the kernel by the owner's next turn after its
// last reference went, on whatever thread that was.
//
// Threads: Take, ReturnReleased, lent_too_many the ring's owner; Release any.
// Owns: the blocks that describe the buffers.  Borrows: memory, ring, waker.
// Invariant: lent = taken and not yet returned to the kernel; a release while the
// owner is starved wakes it.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_RECEIVE_BUFFERS_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_RECEIVE_BUFFERS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "engine/memory/buffer.h"
#include "engine/uring/ring.h"

namespace gyre {

// Ends its owner's sleep, if it sleeps. Any thread.
class Waker {
 public:
  virtual void WakeIfParked() = 0;

 protected:
  ~Waker() = default;
};

class ReceiveBuffers final : public BufferOwner {
 public:
  // `base` has count * buffer_bytes bytes; `count` is a power of two.
  ReceiveBuffers(Waker& waker, char* base, uint32_t buffer_bytes, uint32_t count);
  // Every buffer is back.
  ~ReceiveBuffers();

  // Hands all buffers to the ring, which is used from here on. Once per ring, on its
  // owner's thread, with none lent.
  absl::Status Provide(uring::Ring& ring);

  // The buffer that a completion named, holding `size_bytes`.
  Buffer Take(uint32_t id, uint32_t size_bytes);
  // Gives back what was released since; how many.
  uint32_t ReturnReleased();
  bool has_released() const { return released_.load(std::memory_order_seq_cst) != nullptr; }

  // More than half is lent: the rest is for receiving.
  bool lent_too_many() const { return lent_count_ > count_ / 2; }
  uint32_t lent_count() const { return lent_count_; }
  uint32_t free_count() const { return count_ - lent_count_; }
  uint32_t count() const { return count_; }

  // While set, each Release wakes the owner.
  void SetStarved(bool starved) { starved_.store(starved, std::memory_order_seq_cst); }

  // BufferOwner.
  void Release(BufferBlock* block) override;

 private:
  uring::Ring* ring_ = nullptr;
  Waker& waker_;
  char* const base_;
  const uint32_t buffer_bytes_;
  const uint32_t count_;
  const std::unique_ptr<BufferBlock[]> blocks_;  // cookie = buffer id
  uint32_t lent_count_ = 0;
  // Pushed by Release, taken whole by the owner, so there is no ABA. seq_cst with
  // starved_: a release that does not see the flag is seen by the owner.
  std::atomic<BufferBlock*> released_{nullptr};
  std::atomic<bool> starved_{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_RECEIVE_BUFFERS_H_
