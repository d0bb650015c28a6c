#include "engine/admin/admin_server.h"

#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/uring/uring_ring.h"

namespace gyre {

namespace {

// A few requests: the next buffer is asked for when they are answered.
constexpr uint32_t kReceiveBufferBytes = 1024;

// A multishot receive takes whatever has come, however much that is.
uring::FeatureSet WithoutMultishot(uring::FeatureSet hidden) {
  hidden.Add(uring::Feature::kMultishotRecv);
  return hidden;
}

const Clock& ClockOf(const AdminServerOptions& options) {
  return options.clock != nullptr ? *options.clock : Clock::Real();
}

}  // namespace

SocketServerOptions AdminServer::ServerOptions(const AdminServerOptions& options,
                                               const FrameDecoder& decoder) {
  SocketServerOptions server;
  ListenerOptions& listener = server.listeners.emplace_back();
  listener.endpoint = options.endpoint;
  // Nobody is sent there, so nobody needs to be told where.
  listener.advertised_host = DefaultAdvertisedHost(options.endpoint);
  listener.frame_decoder = &decoder;
  listener.when_full = ListenerOptions::WhenFull::kShed;
  listener.max_connections_name = "admin_max_connections";
  server.thread_name_prefix = "admin-";
  server.num_network_threads = 1;
  // Writes may take two of them for a time (see AdminHandler); the pages are there all the same.
  server.num_io_threads = 4;
  server.queued_max_requests = 64;
  server.queued_max_request_bytes = 16 * 1024 * 1024;
  server.slab_bytes = 4 * 1024 * 1024;
  server.max_connections = options.max_connections;
  server.processor.receive_buffer_bytes = kReceiveBufferBytes;
  server.processor.receive_buffer_count = 256;
  server.processor.splice_pipe_count = 0;
  ConnectionOptions& connection = server.processor.connection;
  connection.socket_request_max_bytes = options.limits.max_request_bytes();
  connection.connections_max_idle_ms = options.connections_max_idle_ms;
  connection.frame_timeout_ms = options.request_timeout_ms;
  // Of a pipeline no more is read than a buffer while a request is answered.
  connection.receive_ahead_bytes = 0;
  // What an unread answer lends to the kernel would hold up its connection's closing.
  connection.zero_copy_min_bytes = -1;
  server.clock = options.clock;
  server.ring_factory = [hidden = WithoutMultishot(options.hidden_features)](
                            absl::string_view) -> absl::StatusOr<std::unique_ptr<uring::Ring>> {
    GYRE_ASSIGN_OR_RETURN(const uring::Features features, uring::ProbeFeatures(hidden));
    return uring::CreateUringRing(features, uring::RingOptions());
  };
  return server;
}

AdminServer::AdminServer(AdminServerOptions options, AdminSource& source)
    : options_(std::move(options)),
      decoder_(options_.limits),
      handler_(source, options_.limits, options_.writes, ClockOf(options_), options_.metrics),
      server_(ServerOptions(options_, decoder_), handler_) {}

absl::Status AdminServer::Start() { return Annotate(server_.Start(), "admin_listener"); }

void AdminServer::Stop() { server_.Stop(); }

}  // namespace gyre
