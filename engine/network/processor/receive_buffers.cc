#include "engine/network/processor/receive_buffers.h"

#include "glog/logging.h"

namespace gyre {

ReceiveBuffers::ReceiveBuffers(Waker& waker, char* base, uint32_t buffer_bytes, uint32_t count)
    : waker_(waker),
      base_(base),
      buffer_bytes_(buffer_bytes),
      count_(count),
      blocks_(std::make_unique<BufferBlock[]>(count)) {
  for (uint32_t id = 0; id < count; ++id) {
    blocks_[id].data = base + size_t{id} * buffer_bytes;
    blocks_[id].capacity_bytes = buffer_bytes;
    blocks_[id].owner = this;
    blocks_[id].cookie = id;
  }
}

ReceiveBuffers::~ReceiveBuffers() {
  uint32_t out = lent_count_;
  for (const BufferBlock* block = released_.load(std::memory_order_acquire); block != nullptr;
       block = block->next) {
    --out;
  }
  DCHECK_EQ(out, 0u) << "frames, or buffers of them that somebody keeps, outlive their server";
}

absl::Status ReceiveBuffers::Provide(uring::Ring& ring) {
  DCHECK_EQ(lent_count_, 0u);
  ring_ = &ring;
  return ring.ProvideBuffers(base_, buffer_bytes_, count_);
}

Buffer ReceiveBuffers::Take(uint32_t id, uint32_t size_bytes) {
  DCHECK_LT(id, count_);
  DCHECK_LE(size_bytes, buffer_bytes_);
  ++lent_count_;
  BufferBlock* block = &blocks_[id];
  block->references.store(1, std::memory_order_relaxed);
  return Buffer::Adopt(block, block->data, size_bytes);
}

void ReceiveBuffers::Release(BufferBlock* block) {
  BufferBlock* top = released_.load(std::memory_order_relaxed);
  do {
    block->next = top;
  } while (!released_.compare_exchange_weak(top, block, std::memory_order_seq_cst,
                                            std::memory_order_relaxed));
  if (starved_.load(std::memory_order_seq_cst)) waker_.WakeIfParked();
}

uint32_t ReceiveBuffers::ReturnReleased() {
  if (released_.load(std::memory_order_relaxed) == nullptr) return 0;
  BufferBlock* block = released_.exchange(nullptr, std::memory_order_acquire);
  uint32_t returned = 0;
  while (block != nullptr) {
    BufferBlock* const next = block->next;
    ring_->ReturnBuffer(static_cast<uint32_t>(block->cookie));
    ++returned;
    block = next;
  }
  lent_count_ -= returned;
  return returned;
}

}  // namespace gyre
