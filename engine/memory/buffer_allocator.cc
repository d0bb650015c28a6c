#include "engine/memory/buffer_allocator.h"

namespace gyre {
namespace {

class HeapAllocator final : public BufferAllocator {
 public:
  Buffer Allocate(uint32_t size_bytes) override { return Buffer::Allocate(size_bytes); }
};

HeapAllocator heap_allocator;

}  // namespace

BufferAllocator& BufferAllocator::Heap() { return heap_allocator; }

Buffer SlabAllocator::Allocate(uint32_t size_bytes) {
  SlabPool* const slab = slab_.load(std::memory_order_acquire);
  if (slab != nullptr) {
    Buffer buffer = slab->Allocate(size_bytes);
    if (buffer.block() != nullptr) return buffer;
  }
  return Buffer::Allocate(size_bytes);
}

}  // namespace gyre
