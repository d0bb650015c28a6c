// Tells where one frame ends and the next begins. The seam for protocols: the
// engine never looks at a byte except through it.
//
// A decoder keeps no state: it looks at the bytes from the start of a frame,
// which are handed to it contiguous, again with more of them while it cannot
// tell. So one object serves every connection of a listener.
//
// Threads: any; const.
#ifndef GYRE_ENGINE_NETWORK_FRAME_DECODER_H_
#define GYRE_ENGINE_NETWORK_FRAME_DECODER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace gyre {

class FrameDecoder {
 public:
  enum class Kind : uint8_t {
    kNeedMore,  // cannot tell yet
    kFrame,     // skip_bytes of framing, then payload_bytes of payload
    kInvalid,   // not this protocol, or beyond a limit: close
  };
  struct Verdict {
    Kind kind = Kind::kNeedMore;
    uint32_t skip_bytes = 0;
    int64_t payload_bytes = 0;
    const char* reason = nullptr;  // kInvalid; static storage

    static constexpr Verdict NeedMore() { return {}; }
    static constexpr Verdict Frame(uint32_t skip_bytes, int64_t payload_bytes) {
      return {Kind::kFrame, skip_bytes, payload_bytes, nullptr};
    }
    static constexpr Verdict Invalid(const char* reason) { return {Kind::kInvalid, 0, 0, reason}; }
  };

  virtual ~FrameDecoder() = default;

  // `bytes` starts at a frame's first byte and is not empty; the first
  // `seen_bytes` of it were looked at before with the verdict kNeedMore.
  // skip + payload is above zero and at most socket_request_max_bytes and the four bytes of
  // a length (as that is when the frame begins), else the frame counts as invalid, whoever
  // decodes; a decoder needs no limit of its own. It may reach beyond `bytes`.
  virtual Verdict Inspect(absl::string_view bytes, size_t seen_bytes) const = 0;

  // A frame that is still undecided with this many bytes is invalid; so is one that is with
  // kMostUndecidedBytes, or with more than the largest frame has.
  static constexpr uint32_t kMostUndecidedBytes = 256 * 1024;
  virtual uint32_t max_undecided_bytes() const = 0;

  // Whether a request may want no answer (Kafka's acks=0). Then whole frames are served
  // that came before their peer was lost; else they go with the connection.
  virtual bool has_one_way_requests() const { return true; }

  // A frame that was not whole within the frame timeout is handed over as far as it
  // came, so that the handler can answer it; else its connection is closed.
  virtual bool hands_over_late_frames() const { return false; }
};

// Kafka's framing: a signed big-endian int32 with the payload's size, then the
// payload. Negative sizes and sizes above the limit are invalid; the limit itself
// and zero are not. A prefix that reads as another protocol's greeting (HTTP, TLS)
// says so in its reason.
//
// Threads: any; the limit may change at any time.
class Int32LengthPrefixed final : public FrameDecoder {
 public:
  explicit constexpr Int32LengthPrefixed(int64_t max_payload_bytes)
      : max_payload_bytes_(max_payload_bytes) {}

  Verdict Inspect(absl::string_view bytes, size_t seen_bytes) const override;
  uint32_t max_undecided_bytes() const override { return sizeof(int32_t); }

  // For the frames that begin from now on.
  void set_max_payload_bytes(int64_t bytes) {
    max_payload_bytes_.store(bytes, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> max_payload_bytes_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_FRAME_DECODER_H_
