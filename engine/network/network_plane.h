// A way from processors to handlers: a request channel with its memory budget
// and the handler threads behind it. The listeners of the data plane share one;
// a privileged listener has one of its own, small, so that its requests pass
// while the data plane is full.
//
// Threads: Start and Stop one controlling thread; the channel says its own.
// Owns: budget, channel and handler threads.  Borrows: the handler and the clock.
#ifndef GYRE_ENGINE_NETWORK_NETWORK_PLANE_H_
#define GYRE_ENGINE_NETWORK_NETWORK_PLANE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/request/request_channel.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/request/request_handler_pool.h"

namespace gyre {

struct NetworkPlaneOptions {
  std::string name;  // the front of its threads' names; mostly "" for the data plane
  int32_t num_io_threads = 1;
  int32_t queued_max_requests = 20;
  std::vector<RequestLaneOptions> lanes;
  int64_t request_budget_bytes = MemoryPool::kUnbounded;
  int64_t largest_request_bytes = 0;
};

class NetworkPlane {
 public:
  NetworkPlane(NetworkPlaneOptions options, const Clock& clock);
  NetworkPlane(const NetworkPlane&) = delete;
  NetworkPlane& operator=(const NetworkPlane&) = delete;

  // Once; `handler` outlives the plane's Stop.
  absl::Status Start(RequestHandler& handler);
  // Joins the handlers; what is queued stays there. Idempotent.
  void Stop();

  // The handler threads between Start and Stop, which a resize changes.
  RequestHandlerPool* handlers() { return handlers_.get(); }
  const RequestHandlerPool* handlers() const { return handlers_.get(); }
  const std::string& name() const { return options_.name; }
  // Over all handlers, and how many there are.
  int64_t HandlerIdleNs(int64_t now_ns, int* handler_count) const;
  RequestChannel& channel() { return channel_; }
  const RequestChannel& channel() const { return channel_; }
  MemoryPool& memory() { return memory_; }

 private:
  const NetworkPlaneOptions options_;
  const Clock& clock_;
  MemoryPool memory_;
  RequestChannel channel_;
  std::unique_ptr<RequestHandlerPool> handlers_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_NETWORK_PLANE_H_
