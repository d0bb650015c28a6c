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

std::optional<Buffer> SlabAllocator::TryAllocate(uint32_t size_bytes) {
  if (SlabPool* const slab = slab_.load(std::memory_order_acquire)) {
    Buffer buffer = slab->Allocate(size_bytes);
    if (buffer.block() != nullptr) return buffer;
  }
  const int64_t limit_bytes = heap_limit_bytes_.load(std::memory_order_relaxed);
  int64_t used_bytes = heap_used_bytes_.load(std::memory_order_relaxed);
  do {
    if (used_bytes > limit_bytes - int64_t{size_bytes}) {
      if (refusal_listener_ != nullptr) refusal_listener_->OnAnswerRefused();
      return std::nullopt;
    }
  } while (!heap_used_bytes_.compare_exchange_weak(used_bytes, used_bytes + size_bytes,
                                                   std::memory_order_relaxed));
  Buffer buffer = Buffer::Allocate(size_bytes);
  buffer.block()->owner = this;
  return buffer;
}

void SlabAllocator::Release(BufferBlock* block) {
  const int64_t size_bytes = block->capacity_bytes;
  Buffer::Free(block);
  heap_used_bytes_.fetch_sub(size_bytes, std::memory_order_relaxed);
}

}  // namespace gyre
