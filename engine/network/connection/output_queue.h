// The requests of one connection that are in flight, in their order, and how far
// the oldest response has been sent. Responses may become ready in any order; they
// leave in this one.
//
// Threads: owner (the connection's processor).
// Owns: nothing; requests are pooled by the processor.
// Invariant: the requests before first_unready_ are ready, and only they are sent.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_OUTPUT_QUEUE_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_OUTPUT_QUEUE_H_

#include <sys/uio.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "engine/network/request/network_send.h"
#include "engine/network/request/request_run.h"

namespace gyre {

// What one send takes at most.
inline constexpr int kGatherParts = 64;

class OutputQueue {
 public:
  OutputQueue() = default;
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;

  // A request was handed over: it will be answered after those before it.
  void Push(ConnectionRequest* request);
  // Its response is here. How many more requests may leave now.
  int32_t MarkReady(ConnectionRequest* request);

  // The oldest request, if it may leave; null otherwise.
  ConnectionRequest* front() const { return first_ == first_unready_ ? nullptr : first_; }
  // Every byte of the front response was sent (or it has none).
  bool front_done() const { return part_ == first_->response().parts().size(); }
  // The part of the front response that comes next. Only when !front_done().
  NetworkSend::Part& front_part() { return first_->response().parts()[part_]; }
  // What of it was sent already.
  int64_t part_offset() const { return part_offset_; }

  // Fills `parts` with the buffers that can leave together from here, over several
  // responses where more than one is ready; stops at a file slice and at a response
  // that is not bytes. `*bytes` is their sum, `*more_follows` says that a ready part
  // comes right after. How many were filled; 0 when a slice is next.
  int Gather(iovec* parts, int max_parts, int64_t max_bytes, int64_t* bytes, bool* more_follows);
  // References to the first `count` buffers that Gather would give now, for who
  // keeps them beyond Advance.
  void HoldGathered(int count, std::vector<Buffer>* out) const;
  // The next part is a slice: is there any ready part behind it?
  bool more_after_part() const;

  // Puts `bytes`, read from where the slice at hand stands, in front of what is
  // left of it. The next part is a slice.
  void InsertBeforeSlice(Buffer bytes);
  // The parts of the front response and the index of the next one, for replacing
  // small slices behind it by buffers, or by more of the buffer before them.
  absl::InlinedVector<NetworkSend::Part, 2>& front_parts() { return first_->response().parts(); }
  uint32_t part_index() const { return part_; }
  // The buffer right before part `index` of the front response, if nothing of it
  // has left; null otherwise.
  const Buffer* UnsentBufferBefore(uint32_t index) const {
    if (index == 0 || index - 1 < part_ || (index - 1 == part_ && part_offset_ > 0)) return nullptr;
    return std::get_if<Buffer>(&first_->response().parts()[index - 1]);
  }

  // `bytes` left, of the front responses in order. Buffers are released as they go.
  // Those beyond the front response count for the next one at Pop().
  void Advance(int64_t bytes);
  // Takes out the front request.
  ConnectionRequest* Pop();

  bool empty() const { return first_ == nullptr; }

 private:
  ConnectionRequest* first_ = nullptr;
  ConnectionRequest* last_ = nullptr;
  ConnectionRequest* first_unready_ = nullptr;
  uint32_t part_ = 0;  // of the front response
  int64_t part_offset_ = 0;
  int64_t carried_bytes_ = 0;  // sent already of the responses behind the front
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_OUTPUT_QUEUE_H_
