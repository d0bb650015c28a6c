// Ref-counted bytes. A BufferBlock is one contiguous piece of memory with one
// owner (the slab pool, a processor's receive ring, a large range, the heap)
// to which it returns when its last reference goes; a Buffer is one reference
// plus a window [data, data + size) into it. Copying a Buffer shares the block.
//
// Threads: the count is atomic, so the last reference may go on any thread;
// Release() of the owner therefore runs on any thread. A single Buffer object
// belongs to one thread at a time.
#ifndef GYRE_ENGINE_MEMORY_BUFFER_H_
#define GYRE_ENGINE_MEMORY_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"

namespace gyre {

struct BufferBlock;

// Takes a block back. Called once per block life, from any thread.
class BufferOwner {
 public:
  virtual void Release(BufferBlock* block) = 0;

 protected:
  ~BufferOwner() = default;
};

struct BufferBlock {
  char* data = nullptr;
  uint32_t capacity_bytes = 0;
  // The index of the ring's registered buffer that covers all of it, or -1.
  int32_t registered_index = -1;
  BufferOwner* owner = nullptr;
  // Owner's own bookkeeping (size class, buffer id, …).
  uint64_t cookie = 0;
  BufferBlock* next = nullptr;
  std::atomic<uint32_t> references{0};
};

class Buffer {
 public:
  Buffer() = default;
  // Adopts one reference that the caller holds (`references` was set to >= 1).
  static Buffer Adopt(BufferBlock* block, char* data, uint32_t size_bytes) {
    return Buffer(block, data, size_bytes);
  }
  // A fresh heap block of exactly `size_bytes`; size() == size_bytes.
  static Buffer Allocate(uint32_t size_bytes);
  static Buffer CopyOf(absl::string_view bytes);
  // Frees a block of Allocate's: for an owner that put itself in the place of its own.
  static void Free(BufferBlock* block);

  Buffer(const Buffer& other)
      : block_(other.block_), size_bytes_(other.size_bytes_), data_(other.data_) {
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Buffer(Buffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(const Buffer& other) { return *this = Buffer(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(block_, taken.block_);
    std::swap(size_bytes_, taken.size_bytes_);
    std::swap(data_, taken.data_);
    return *this;
  }
  ~Buffer() { Reset(); }

  void Reset() {
    // A sole holder sees 1, which nobody else can then raise: it saves the
    // read-modify-write.
    if (block_ != nullptr && (block_->references.load(std::memory_order_acquire) == 1 ||
                              block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)) {
      block_->owner->Release(block_);
    }
    block_ = nullptr;
    data_ = nullptr;
    size_bytes_ = 0;
  }

  char* data() const { return data_; }
  uint32_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  absl::string_view view() const { return {data_, size_bytes_}; }
  BufferBlock* block() const { return block_; }

  // Shares the block; [offset, offset + size) must lie inside this window.
  Buffer Slice(uint32_t offset_bytes, uint32_t size_bytes) const {
    Buffer slice(*this);
    slice.data_ += offset_bytes;
    slice.size_bytes_ = size_bytes;
    return slice;
  }
  void RemovePrefix(uint32_t bytes) {
    data_ += bytes;
    size_bytes_ -= bytes;
  }
  void Truncate(uint32_t size_bytes) { size_bytes_ = size_bytes; }

 private:
  Buffer(BufferBlock* block, char* data, uint32_t size_bytes)
      : block_(block), size_bytes_(size_bytes), data_(data) {}

  // The pointers are apart on purpose: side by side, compilers move both in one
  // load, which waits for the two stores that have just written them.
  BufferBlock* block_ = nullptr;
  uint32_t size_bytes_ = 0;
  char* data_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_BUFFER_H_
