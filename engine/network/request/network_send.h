// What one response puts on the wire: an ordered list of buffers and file
// ranges, sent gathered and in order. The bytes are complete: any length
// prefix is the first buffer's business.
//
// Threads: handoff (built by a handler, sent by the connection's processor).
// Owns: references to its buffers and files until they are sent.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_NETWORK_SEND_H_
#define GYRE_ENGINE_NETWORK_REQUEST_NETWORK_SEND_H_

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "engine/fs/file_slice.h"
#include "engine/memory/buffer.h"
#include "glog/logging.h"

namespace gyre {

class NetworkSend {
 public:
  using Part = std::variant<Buffer, FileSlice>;

  NetworkSend() = default;
  explicit NetworkSend(Buffer buffer) { Append(std::move(buffer)); }
  NetworkSend(NetworkSend&&) = default;
  NetworkSend& operator=(NetworkSend&&) = default;

  // Empty parts are dropped.
  void Append(Buffer buffer) {
    if (buffer.empty()) return;
    size_bytes_ += buffer.size_bytes();
    parts_.emplace_back(std::move(buffer));
  }
  // One that is not valid() is a bug, which ends a debug build; else whoever gets the answer
  // is closed instead.
  void Append(FileSlice slice) {
    if (slice.size_bytes == 0) return;
    DCHECK(slice.valid()) << "a file slice without a file, or that is no range";
    if (!slice.valid()) [[unlikely]] {
      valid_ = false;
      return;
    }
    size_bytes_ += slice.size_bytes;
    parts_.emplace_back(std::move(slice));
  }

  int64_t size_bytes() const { return size_bytes_; }
  // False: something that cannot be sent was appended, and is missing.
  bool valid() const { return valid_; }
  // What of it is memory; the rest are references to files.
  int64_t memory_bytes() const {
    int64_t bytes = 0;
    for (const Part& part : parts_) {
      if (const Buffer* buffer = std::get_if<Buffer>(&part)) bytes += buffer->size_bytes();
    }
    return bytes;
  }
  bool empty() const { return parts_.empty(); }
  absl::InlinedVector<Part, 2>& parts() { return parts_; }
  const absl::InlinedVector<Part, 2>& parts() const { return parts_; }

 private:
  absl::InlinedVector<Part, 2> parts_;
  int64_t size_bytes_ = 0;
  bool valid_ = true;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_NETWORK_SEND_H_
