#include "engine/admin/admin_server.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace gyre {

namespace {

const Clock& ClockOf(const AdminServerOptions& options) {
  return options.clock != nullptr ? *options.clock : Clock::Real();
}

}  // namespace

SocketServerOptions AdminServer::ServerOptions(const AdminServerOptions& options,
                                               const FrameDecoder& decoder) {
  SocketServerOptions server;
  ListenerOptions& listener = server.listeners.emplace_back();
  listener.endpoint = options.endpoint;
  listener.frame_decoder = &decoder;
  server.thread_name_prefix = "admin-";
  server.num_network_threads = 1;
  // A write may take its time; the pages are there all the same.
  server.num_io_threads = 2;
  server.queued_max_requests = 64;
  server.queued_max_request_bytes = 16 * 1024 * 1024;
  server.slab_bytes = 4 * 1024 * 1024;
  server.max_connections = options.max_connections;
  server.processor.receive_buffer_bytes = 4 * 1024;
  server.processor.receive_buffer_count = 64;
  server.processor.splice_pipe_count = 0;
  ConnectionOptions& connection = server.processor.connection;
  connection.socket_request_max_bytes =
      int64_t{options.limits.max_head_bytes} + options.limits.max_skipped_body_bytes;
  connection.connections_max_idle_ms = options.connections_max_idle_ms;
  connection.frame_timeout_ms = options.request_timeout_ms;
  server.clock = options.clock;
  server.ring_factory = options.ring_factory;
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
