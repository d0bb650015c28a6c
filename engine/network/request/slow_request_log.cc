#include "engine/network/request/slow_request_log.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "glog/logging.h"

namespace gyre {

std::string SlowRequestText(absl::string_view api_name, const ConnectionRequest& request,
                            const RequestSpans& spans, const Session& session) {
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  // What clients call themselves is theirs; a log line is ours.
  return absl::StrFormat(
      "%s version %d took %.1f ms: request queue %.1f, local %.1f, remote %.1f, throttle %.1f, "
      "response queue %.1f, response send %.1f; %d bytes from %s on %s, client id \"%s\", "
      "software %s %s, %s",
      api_name, request.api_version, ms(spans.total_ns), ms(spans.request_queue_ns),
      ms(spans.local_ns), ms(spans.remote_ns), ms(spans.throttle_ns), ms(spans.response_queue_ns),
      ms(spans.response_send_ns), request.frame_bytes(), session.peer.ToString(),
      session.listener->bound.listener_name, absl::CHexEscape(request.client_id.view()),
      session.software_name(), session.software_version(), session.principal());
}

void SlowRequestLog::Log(absl::string_view api_name, const ConnectionRequest& request,
                         const RequestSpans& spans, const Session& session, int64_t now_ns) {
  uint64_t suppressed = 0;
  if (!limit_.TryTake(now_ns, &suppressed)) return;
  LOG(WARNING) << "slow request: " << SlowRequestText(api_name, request, spans, session)
               << (suppressed > 0 ? absl::StrCat(" (", suppressed, " similar lines held back)")
                                  : std::string());
}

}  // namespace gyre
