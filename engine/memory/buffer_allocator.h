// Where the bytes of a response come from, seen by those who fill them.
//
// Threads: Allocate any.
#ifndef GYRE_ENGINE_MEMORY_BUFFER_ALLOCATOR_H_
#define GYRE_ENGINE_MEMORY_BUFFER_ALLOCATOR_H_

#include <atomic>
#include <cstdint>

#include "engine/memory/buffer.h"
#include "engine/memory/slab_pool.h"

namespace gyre {

class BufferAllocator {
 public:
  // size_bytes() == `size_bytes`; the bytes are not zeroed. Never refuses.
  virtual Buffer Allocate(uint32_t size_bytes) = 0;

  // One that takes everything from the heap.
  static BufferAllocator& Heap();

 protected:
  ~BufferAllocator() = default;
};

// The registered slab first, so that a response can be sent without a copy; the
// heap when that is exhausted, or not there yet.
//
// Threads: Allocate any, lock-free while the slab has slots; SetSlab before the
// slab's first user starts.
// Borrows: the slab, which outlives every buffer.
class SlabAllocator final : public BufferAllocator {
 public:
  explicit SlabAllocator(SlabPool* slab = nullptr) : slab_(slab) {}

  void SetSlab(SlabPool* slab) { slab_.store(slab, std::memory_order_release); }
  Buffer Allocate(uint32_t size_bytes) override;

 private:
  std::atomic<SlabPool*> slab_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_BUFFER_ALLOCATOR_H_
