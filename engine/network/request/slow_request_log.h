// One line for a request that took too long: which, whose, and where its time went.
// Few lines every ten seconds; how many were held back is said with the next.
//
// Threads: the owner (a processor).
#ifndef GYRE_ENGINE_NETWORK_REQUEST_SLOW_REQUEST_LOG_H_
#define GYRE_ENGINE_NETWORK_REQUEST_SLOW_REQUEST_LOG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/log_every.h"
#include "engine/network/request/request_metrics.h"
#include "engine/network/request/request_run.h"
#include "engine/network/request/session.h"

namespace gyre {

// "Fetch version 12 took 1203.4 ms: request queue 0.1, local 0.2, remote 1200.0, …".
std::string SlowRequestText(absl::string_view api_name, const ConnectionRequest& request,
                            const RequestSpans& spans, const Session& session);

class SlowRequestLog {
 public:
  void Log(absl::string_view api_name, const ConnectionRequest& request, const RequestSpans& spans,
           const Session& session, int64_t now_ns);

 private:
  LogEvery limit_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_SLOW_REQUEST_LOG_H_
