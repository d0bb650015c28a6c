#include "engine/admin/http_decoder.h"

#include <algorithm>

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
      // As much as may be looked at was enough.
      return Verdict::Frame(
          0, std::min<int64_t>(static_cast<int64_t>(bytes.size()), max_undecided_bytes()));
  }
  return Verdict::NeedMore();
}

}  // namespace gyre
