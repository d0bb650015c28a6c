#include "engine/admin/http_decoder.h"

namespace gyre {

FrameDecoder::Verdict HttpDecoder::Inspect(absl::string_view bytes, size_t seen_bytes) const {
  const HttpRequest request = ParseHttpRequest(bytes, limits_);
  switch (request.state) {
    case HttpRequest::State::kNeedMore:
      if (request.frame_bytes == 0) return Verdict::NeedMore();
      return Verdict::Frame(0, static_cast<int64_t>(request.frame_bytes));
    case HttpRequest::State::kComplete:
      return Verdict::Frame(0, static_cast<int64_t>(request.frame_bytes));
    case HttpRequest::State::kRefused:
      return Verdict::Frame(0, static_cast<int64_t>(bytes.size()));
  }
  return Verdict::NeedMore();
}

}  // namespace gyre
