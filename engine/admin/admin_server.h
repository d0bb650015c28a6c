// The admin listener: a SocketServer of its own, with one processor, four handlers and
// its own small memory, so that it answers while the data plane is full, recovering or
// draining. It speaks HTTP (http_decoder.h) and serves the pages (admin_handler.h).
//
// Threads: as SocketServer; construction, Start and Stop on one thread.
// Owns: its server.  Borrows: the source, clock and registry; they outlive it.
#ifndef GYRE_ENGINE_ADMIN_ADMIN_SERVER_H_
#define GYRE_ENGINE_ADMIN_ADMIN_SERVER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/admin/admin_handler.h"
#include "engine/admin/admin_source.h"
#include "engine/admin/http_decoder.h"
#include "engine/network/socket_server.h"
#include "engine/uring/features.h"

namespace gyre {

struct AdminServerOptions {
  Endpoint endpoint;  // its listener_name is for the log
  AdminWrites writes = AdminWrites::kLoopback;
  HttpLimits limits;
  // From a request's first byte to its last: 408 beyond it.
  int64_t request_timeout_ms = 10'000;
  int64_t connections_max_idle_ms = 60'000;
  // Beyond it the least recently used one is closed for each new one, so that a probe
  // gets in whoever holds the others.
  int32_t max_connections = 64;
  const Clock* clock = nullptr;       // null: the real one
  MetricRegistry* metrics = nullptr;  // may be null
  uring::FeatureSet hidden_features;  // of io_uring: what to do without
};

class AdminServer {
 public:
  AdminServer(AdminServerOptions options, AdminSource& source);

  // One actionable line on failure, with nothing left running.
  absl::Status Start();
  // Open requests are cut; returns when nothing runs any more.
  void Stop();

  // For a take-over, see SocketServer: before Start, and while it runs.
  void AdoptListenSockets(std::vector<ListenSocket> sockets) {
    server_.AdoptListenSockets(std::move(sockets));
  }
  absl::StatusOr<std::vector<ListenSocket>> DuplicateListenSockets() {
    return server_.DuplicateListenSockets();
  }

  // As bound. After Start.
  const Endpoint& endpoint() const { return server_.bound_endpoints()[0]; }

 private:
  static SocketServerOptions ServerOptions(const AdminServerOptions& options,
                                           const FrameDecoder& decoder);

  const AdminServerOptions options_;
  const HttpDecoder decoder_;
  AdminHandler handler_;
  SocketServer server_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_ADMIN_ADMIN_SERVER_H_
