// HTTP/1.x as the engine's second protocol: where one request ends and the next
// begins. A request that is refused becomes a frame, too, so that the handler answers it
// with a status and then closes; the engine itself never closes on bad HTTP.
//
// Threads: any; const.
#ifndef GYRE_ENGINE_ADMIN_HTTP_DECODER_H_
#define GYRE_ENGINE_ADMIN_HTTP_DECODER_H_

#include "engine/admin/http_request.h"
#include "engine/network/frame_decoder.h"

namespace gyre {

class HttpDecoder final : public FrameDecoder {
 public:
  explicit HttpDecoder(const HttpLimits& limits) : limits_(limits) {}

  Verdict Inspect(absl::string_view bytes, size_t seen_bytes) const override;
  // Never reached: Inspect has decided by then.
  uint32_t max_undecided_bytes() const override { return limits_.max_undecided_bytes() + 1; }
  bool has_one_way_requests() const override { return false; }
  // Half a request whose time is over is answered with 408.
  bool hands_over_late_frames() const override { return true; }

 private:
  const HttpLimits limits_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_ADMIN_HTTP_DECODER_H_
