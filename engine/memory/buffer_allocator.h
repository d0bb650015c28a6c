// Where the bytes of a response come from, seen by those who fill them.
//
// Threads: any.
#ifndef GYRE_ENGINE_MEMORY_BUFFER_ALLOCATOR_H_
#define GYRE_ENGINE_MEMORY_BUFFER_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/memory/buffer.h"
#include "engine/memory/slab_pool.h"

namespace gyre {

class BufferAllocator {
 public:
  // size_bytes() == `size_bytes`; the bytes are not zeroed. Never refuses: for small answers
  // (what a handler holds so counts in a server's memory limit from its reply on).
  virtual Buffer Allocate(uint32_t size_bytes) = 0;
  // The same for an answer that may be large. None when there is no room for it among what
  // was taken in this way and is still held, by handlers or on its way to a peer: the handler
  // answers with its protocol's "busy", or tries again later. A refusal has readers closed
  // that hardly take theirs.
  virtual std::optional<Buffer> TryAllocate(uint32_t size_bytes) { return Allocate(size_bytes); }

  // One that takes everything from the heap.
  static BufferAllocator& Heap();

 protected:
  ~BufferAllocator() = default;
};

// The registered slab first, so that a response can be sent without a copy; the
// heap when that is exhausted, or not there yet.
//
// Threads: any, lock-free while the slab has slots; SetSlab and SetRefusalListener before
// the first user starts.
// Borrows: the slab, which outlives every buffer, and the listener. The allocator outlives
// what TryAllocate gave.
// Invariant: what TryAllocate gave of the heap and is still held is at most the limit.
class SlabAllocator final : public BufferAllocator, private BufferOwner {
 public:
  // Told of each refusal, by the thread that was refused.
  class RefusalListener {
   public:
    virtual void OnAnswerRefused() = 0;

   protected:
    ~RefusalListener() = default;
  };

  explicit SlabAllocator(SlabPool* slab = nullptr) : slab_(slab) {}

  void SetSlab(SlabPool* slab) { slab_.store(slab, std::memory_order_release); }
  void SetRefusalListener(RefusalListener* listener) { refusal_listener_ = listener; }
  // For TryAllocate, from its next call on.
  void SetHeapLimit(int64_t bytes) { heap_limit_bytes_.store(bytes, std::memory_order_relaxed); }
  // Of TryAllocate.
  int64_t heap_used_bytes() const { return heap_used_bytes_.load(std::memory_order_relaxed); }

  Buffer Allocate(uint32_t size_bytes) override;
  std::optional<Buffer> TryAllocate(uint32_t size_bytes) override;

 private:
  // BufferOwner.
  void Release(BufferBlock* block) override;

  std::atomic<SlabPool*> slab_;
  RefusalListener* refusal_listener_ = nullptr;
  std::atomic<int64_t> heap_limit_bytes_{INT64_MAX};
  std::atomic<int64_t> heap_used_bytes_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_BUFFER_ALLOCATOR_H_
