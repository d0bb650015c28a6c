#include "engine/network/network_plane.h"

#include <algorithm>
#include <utility>

namespace gyre {

NetworkPlane::NetworkPlane(NetworkPlaneOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      memory_(options_.request_budget_bytes, options_.largest_request_bytes),
      channel_(static_cast<uint32_t>(std::max(1, options_.queued_max_requests)), clock, memory_,
               options_.lanes) {}

absl::Status NetworkPlane::Start(RequestHandler& handler) {
  handlers_ = std::make_unique<RequestHandlerPool>(options_.num_io_threads, channel_, handler,
                                                   clock_, options_.name);
  return handlers_->Start();
}

int64_t NetworkPlane::HandlerIdleNs(int64_t now_ns, int* handler_count) const {
  *handler_count = 0;
  return handlers_ == nullptr ? 0 : handlers_->IdleNs(now_ns, handler_count);
}

void NetworkPlane::Stop() {
  if (handlers_ != nullptr) handlers_->Stop();
}

}  // namespace gyre
