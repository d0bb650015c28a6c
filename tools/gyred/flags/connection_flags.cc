#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"
#include "tools/gyred/flags/live_connection.h"

DEFINE_int64(connections_max_idle_ms, 600000,
             "Closed after this long without a request; -1: never.");
DEFINE_int64(drain_timeout_ms, 30000,
             "On SIGTERM or SIGINT: how long requests in flight may take. A second signal ends at "
             "once.");
DEFINE_int32(socket_listen_backlog_size, 4096,
             "Connections the kernel holds before they are accepted.");
DEFINE_int32(socket_send_buffer_bytes, -1, "-1: the kernel's choice.");
DEFINE_int32(socket_receive_buffer_bytes, -1, "-1: the kernel's choice.");
DEFINE_string(socket_congestion_control, "",
              "A name such as bbr or cubic; empty: the kernel's choice.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  options.network.processor.connection.connections_max_idle_ms = FLAGS_connections_max_idle_ms;
  options.drain_timeout_ms = FLAGS_drain_timeout_ms;
  SocketOptions& sockets = options.network.sockets;
  sockets.listen_backlog_size = FLAGS_socket_listen_backlog_size;
  sockets.send_buffer_bytes = FLAGS_socket_send_buffer_bytes;
  sockets.receive_buffer_bytes = FLAGS_socket_receive_buffer_bytes;
  sockets.congestion_control = FLAGS_socket_congestion_control;
  return absl::OkStatus();
}

absl::Status SetIdle(BrokerServer& server) {
  return ChangeConnections(server, [](ConnectionOptions& options) {
    options.connections_max_idle_ms = FLAGS_connections_max_idle_ms;
  });
}

absl::Status SetDrain(BrokerServer& server) {
  server.SetDrainTimeout(FLAGS_drain_timeout_ms);
  return absl::OkStatus();
}

}  // namespace

FlagGroup ConnectionFlags() {
  return {"Connections",
          {
              FlagSpec("connections_max_idle_ms")
                  .Between(-1, FlagSpec::kInt64Max / 4'000'000)
                  .Live(&SetIdle),
              FlagSpec("drain_timeout_ms").Between(0, 3'600'000).Live(&SetDrain),
              FlagSpec("socket_listen_backlog_size").Between(1, 65'535),
              FlagSpec("socket_send_buffer_bytes").AtLeast(-1),
              FlagSpec("socket_receive_buffer_bytes").AtLeast(-1),
              FlagSpec("socket_congestion_control"),
          },
          &Apply};
}

}  // namespace gyre
