#include "engine/memory/buffer.h"

#include <cstring>
#include <new>

namespace gyre {
namespace {

// The block's header and its bytes are one heap allocation.
class HeapOwner final : public BufferOwner {
 public:
  void Release(BufferBlock* block) override { Buffer::Free(block); }
};

HeapOwner heap_owner;

}  // namespace

Buffer Buffer::Allocate(uint32_t size_bytes) {
  void* memory = ::operator new(sizeof(BufferBlock) + size_bytes);
  auto* block = new (memory) BufferBlock;
  block->data = static_cast<char*>(memory) + sizeof(BufferBlock);
  block->capacity_bytes = size_bytes;
  block->owner = &heap_owner;
  block->references.store(1, std::memory_order_relaxed);
  return Adopt(block, block->data, size_bytes);
}

void Buffer::Free(BufferBlock* block) {
  block->~BufferBlock();
  ::operator delete(block);
}

Buffer Buffer::CopyOf(absl::string_view bytes) {
  Buffer buffer = Allocate(static_cast<uint32_t>(bytes.size()));
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

}  // namespace gyre
