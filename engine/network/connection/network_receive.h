// Turns the bytes of one connection into frames. A frame that lies whole in one
// received buffer becomes a slice of it, without a copy; one that straddles is
// copied into slab memory that grows with the bytes that came; one above
// kSlabMaxBytes goes into a large range, and once the bytes at hand are used up
// the rest is received straight into it (wants_direct).
//
// The size a peer announces reserves nothing but address space. A frame that is not
// whole is charged for the memory it lies in as that grows (MemoryUse::kPartial); one
// that is, for its size, all at once.
//
// Threads: owner (the connection's processor).
// Owns: bytes not yet given out.  Borrows: decoder and memory, per call.
// Invariant: bytes come out in the order they were appended, each exactly once,
// less the framing.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_NETWORK_RECEIVE_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_NETWORK_RECEIVE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/memory/buffer.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/connection/received_pieces.h"
#include "engine/network/frame_decoder.h"

namespace gyre {

// Where frames get their memory and its price; refusal is backpressure.
class ReceiveMemory {
 public:
  // Charges the budget; false: no room now.
  virtual bool TryCharge(int64_t bytes, MemoryUse use) = 0;
  virtual void Uncharge(int64_t bytes, MemoryUse use) = 0;
  // Of what was charged as partial: the rest of the frame is here.
  virtual void MakeWhole(int64_t bytes) = 0;
  // A buffer of that size, at most kSlabMaxBytes.
  virtual Buffer Allocate(uint32_t size_bytes) = 0;
  // A lazily backed range; empty when all are in use.
  virtual Buffer TryAllocateLarge(uint32_t size_bytes) = 0;
  // True: too many received buffers are held already; copy out.
  virtual bool lent_too_many() const = 0;
  // A frame with its framing takes no more, whatever its decoder says.
  int64_t max_frame_bytes = INT64_MAX;

 protected:
  ~ReceiveMemory() = default;
};

class NetworkReceive {
 public:
  enum class Status : uint8_t {
    kFrame,
    kNeedMore,  // everything appended was looked at
    kNoMemory,  // refused; ask again when there is room
    kInvalid,   // no further call
  };
  struct Frame {
    Buffer payload;             // may be empty
    int64_t charged_bytes = 0;  // as whole; the taker uncharges them
  };
  struct Target {
    char* to = nullptr;
    size_t size_bytes = 0;
  };

  NetworkReceive() = default;
  NetworkReceive(const NetworkReceive&) = delete;
  NetworkReceive& operator=(const NetworkReceive&) = delete;

  // Received bytes, in order. Small pieces that must wait are packed together.
  void Append(Buffer bytes, ReceiveMemory& memory);

  // The next whole frame. On kInvalid `*reason` says why.
  Status Next(const FrameDecoder& decoder, ReceiveMemory& memory, Frame* frame,
              const char** reason);

  // Bytes appended and not yet looked at (a partial frame's are not counted).
  int64_t unparsed_bytes() const { return pending_bytes_; }
  // What the frame under way holds of the budget, as partial.
  int64_t charged_bytes() const { return charged_bytes_; }
  // What its peer has still to send of it, as far as can be told.
  int64_t missing_bytes() const {
    return std::max<int64_t>(0, total_bytes_ - assembled_bytes_ - pending_bytes_);
  }
  // There is something for Next() to look at.
  bool has_unseen() const {
    return pending_bytes_ > 0 || (assembling_ && total_bytes_ > 0 && !in_large_frame() &&
                                  assembled_bytes_ == total_bytes_);
  }
  // False: what came cannot hold a whole frame.
  bool MayHoldFrame(const FrameDecoder& decoder) const;
  // Between a frame's first byte and its last.
  bool mid_frame() const { return assembling_ || pending_bytes_ > 0; }

  // A large frame is under way and nothing is pending: receive into direct_target.
  bool wants_direct() const { return in_large_frame() && pending_bytes_ == 0; }
  // A large frame is under way and not whole yet.
  bool in_large_frame() const { return assembling_ && large_ && assembled_bytes_ < total_bytes_; }
  Target direct_target(size_t max_bytes) const;
  // Charges for up to `max_bytes` ahead of a direct receive whose data is known to be
  // waiting, and says for how many; 0: refused.
  int64_t TryChargeDirect(int64_t max_bytes, ReceiveMemory& memory);
  // The direct receive is over, and filled in so many. What it left is given back.
  void OnDirectDone(int64_t bytes, ReceiveMemory& memory);

  // Gives up on the frame under way: what came of it, framing included, is `*frame`.
  // False: nothing was gathered, or a receive may be writing into it.
  bool TakeUnfinished(Frame* frame, ReceiveMemory& memory);
  // Hands everything to `to`, which is empty, and is empty afterwards. Bytes that lie
  // in received buffers are copied out of them; what a frame under way was charged
  // goes along. No direct receive is in flight.
  void MoveTo(NetworkReceive* to, ReceiveMemory& memory);

  // Drops everything; the connection is going.
  void Clear(ReceiveMemory& memory);

 private:
  const Buffer& front() const { return pending_.front().bytes; }
  void DropFront(uint32_t bytes);
  void PushFront(Buffer bytes, ReceiveMemory& memory);
  Status StartAssembly(int64_t total_bytes, uint32_t skip_bytes, ReceiveMemory& memory);
  void Grow(uint32_t capacity_bytes, ReceiveMemory& memory);
  Status FillAssembly(ReceiveMemory& memory);
  Status DecideAssembly(const FrameDecoder& decoder, ReceiveMemory& memory, const char** reason);
  void TakeAssembly(Frame* frame);
  // What the first `bytes` of the frame take of a large range.
  int64_t InRange(int64_t bytes) const;
  // Charges until the frame holds `bytes` of the budget.
  bool TryChargeUpTo(int64_t bytes, ReceiveMemory& memory);

  ReceivedPieces pending_;
  int64_t pending_bytes_ = 0;
  uint32_t seen_bytes_ = 0;  // of an undecided assembly
  uint32_t skip_bytes_ = 0;
  bool assembling_ = false;
  bool large_ = false;

  Buffer assembly_;  // its size is its capacity
  int64_t assembled_bytes_ = 0;
  int64_t total_bytes_ = 0;  // framing and payload; 0 while undecided
  int64_t charged_bytes_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_NETWORK_RECEIVE_H_
