#include "tests/fuzz/http_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/admin/admin_handler.h"
#include "engine/admin/http_decoder.h"
#include "engine/admin/http_response.h"
#include "engine/base/clock.h"
#include "glog/logging.h"

namespace gyre {

namespace {

class NoSource final : public AdminSource {
 public:
  std::string Metrics() override { return ""; }
  absl::Status Health() override { return absl::OkStatus(); }
  absl::Status Ready() override { return absl::OkStatus(); }
  AdminVersion Version() override { return {}; }
  std::vector<AdminFlag> Flags() override { return {{.name = "a", .live = true}}; }
  absl::Status SetFlag(absl::string_view name, absl::string_view value) override {
    return name == "a" ? absl::OkStatus() : absl::NotFoundError("no such flag");
  }
  std::vector<ConnectionInfo> Connections(size_t, int64_t* open_count) override {
    *open_count = 0;
    return {};
  }
};

// Small, so that an input of a few hundred bytes reaches each of them.
constexpr HttpLimits kLimits = {.max_line_bytes = 64,
                                .max_head_bytes = 256,
                                .max_body_bytes = 64,
                                .max_skipped_body_bytes = 256};

}  // namespace

int CheckHttp(absl::string_view input) {
  if (input.empty()) return 0;
  const size_t step = 1 + static_cast<uint8_t>(input[0]);
  absl::string_view bytes = input.substr(1);
  const HttpDecoder decoder(kLimits);
  NoSource source;
  AdminHandler handler(source, kLimits, AdminWrites::kLoopback, Clock::Real(), nullptr);

  int answered = 0;
  size_t have = 0;  // bytes of the request under way that came
  size_t seen = 0;
  while (!bytes.empty()) {
    have = std::min(bytes.size(), have + step);
    const absl::string_view part = bytes.substr(0, have);
    const FrameDecoder::Verdict verdict = decoder.Inspect(part, seen);
    CHECK(verdict.kind != FrameDecoder::Kind::kInvalid) << "bad HTTP is answered, not closed on";
    if (verdict.kind == FrameDecoder::Kind::kNeedMore) {
      CHECK_LT(have, decoder.max_undecided_bytes()) << "no verdict within the limit";
      if (have == bytes.size()) break;
      seen = have;
      continue;
    }
    CHECK_EQ(verdict.skip_bytes, 0u);
    CHECK_GT(verdict.payload_bytes, 0);
    if (verdict.payload_bytes > static_cast<int64_t>(bytes.size())) break;
    const absl::string_view frame = bytes.substr(0, static_cast<size_t>(verdict.payload_bytes));
    const HttpRequest request = ParseHttpRequest(frame, kLimits);
    CHECK(request.state != HttpRequest::State::kNeedMore) << "a frame that is no request";
    HttpResponse response;
    response.status = request.refusal;
    if (request.refusal == 0) {
      CHECK_EQ(request.frame_bytes, frame.size());
      response = handler.Answer(request, "127.0.0.1:1");
    }
    CHECK(!HttpReason(response.status).empty()) << response.status;
    CHECK(!EncodeHttpResponse(response, request.method == "HEAD", request.keep_alive, 0).empty());
    ++answered;
    if (!request.keep_alive) break;
    bytes.remove_prefix(frame.size());
    have = 0;
    seen = 0;
  }
  return answered;
}

}  // namespace gyre
