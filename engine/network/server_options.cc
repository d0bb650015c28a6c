#include "engine/network/server_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/memory/large_ranges.h"

namespace gyre {
namespace {

absl::Status AtLeast(absl::string_view name, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=", value, " is out of range; the least is ", least));
}

absl::Status CheckListener(const ListenerOptions& listener) {
  if (listener.num_network_threads.has_value()) {
    GYRE_RETURN_IF_ERROR(AtLeast("num_network_threads", *listener.num_network_threads, 1));
  }
  if (listener.max_connections.has_value()) {
    GYRE_RETURN_IF_ERROR(AtLeast("max_connections", *listener.max_connections, 1));
  }
  if (listener.max_connection_creation_rate.has_value()) {
    GYRE_RETURN_IF_ERROR(
        AtLeast("max_connection_creation_rate", *listener.max_connection_creation_rate, 1));
  }
  GYRE_RETURN_IF_ERROR(AtLeast("privileged_io_threads", listener.privileged_io_threads, 1));
  GYRE_RETURN_IF_ERROR(
      AtLeast("privileged_queued_max_requests", listener.privileged_queued_max_requests, 1));
  return absl::OkStatus();
}

}  // namespace

bool ParseDispatch(absl::string_view text, Dispatch* out) {
  if (text == "pool")
    *out = Dispatch::kPool;
  else if (text == "inline")
    *out = Dispatch::kInline;
  else
    return false;
  return true;
}

bool ParseAcceptMode(absl::string_view text, AcceptMode* out) {
  if (text == "acceptor")
    *out = AcceptMode::kAcceptor;
  else if (text == "reuseport")
    *out = AcceptMode::kReusePort;
  else
    return false;
  return true;
}

bool ParseFileTransfer(absl::string_view text, FileTransfer* out) {
  if (text == "auto")
    *out = FileTransfer::kAuto;
  else if (text == "sendfile")
    *out = FileTransfer::kSendfile;
  else if (text == "splice")
    *out = FileTransfer::kSplice;
  else if (text == "copy")
    *out = FileTransfer::kCopy;
  else
    return false;
  return true;
}

namespace {

absl::Status CheckConnection(const SocketServerOptions& options,
                             const ConnectionOptions& connection) {
  GYRE_RETURN_IF_ERROR(AtLeast("socket_request_max_bytes", connection.socket_request_max_bytes, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("max_in_flight_requests_per_connection",
                               connection.max_in_flight_requests_per_connection, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("max_in_flight_bytes_per_connection",
                               connection.max_in_flight_bytes_per_connection, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("dispatch_quantum_bytes", connection.dispatch_quantum_bytes, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("receive_ahead_bytes", connection.receive_ahead_bytes, 0));
  GYRE_RETURN_IF_ERROR(
      AtLeast("zero_copy_max_pinned_bytes", connection.zero_copy_max_pinned_bytes, 0));
  if (options.lanes.size() > size_t{kMaxLanes}) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.lanes.size(), " lanes; there are at most ", kMaxLanes));
  }
  for (const RequestLaneOptions& lane : options.lanes) {
    GYRE_RETURN_IF_ERROR(AtLeast(absl::StrCat("weight of lane ", lane.name), lane.weight, 1));
  }
  if (connection.socket_request_max_bytes > int64_t{LargeRanges::kMaxRangeBytes} - kPageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket_request_max_bytes=", connection.socket_request_max_bytes,
                     " is out of range; the most is ", LargeRanges::kMaxRangeBytes - kPageBytes));
  }
  if (options.queued_max_request_bytes > 0) {
    GYRE_RETURN_IF_ERROR(AtLeast("queued_max_request_bytes", options.queued_max_request_bytes,
                                 connection.socket_request_max_bytes + 4));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLiveOptions(const SocketServerOptions& options,
                              const ConnectionOptions& connection) {
  const ConnectionOptions& before = options.processor.connection;
  if (connection.dispatch != before.dispatch) {
    return absl::InvalidArgumentError("dispatch takes effect at a start only");
  }
  // A privileged listener's budget was cut to the largest request of the start.
  const bool has_privileged =
      std::any_of(options.listeners.begin(), options.listeners.end(),
                  [](const ListenerOptions& listener) { return listener.privileged; });
  if (has_privileged && options.queued_max_request_bytes > 0 &&
      connection.socket_request_max_bytes > before.socket_request_max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket_request_max_bytes=", connection.socket_request_max_bytes,
                     " is out of range; with a privileged listener the most is ",
                     before.socket_request_max_bytes, ", as at the start"));
  }
  return CheckConnection(options, connection);
}

absl::Status CheckOptions(const SocketServerOptions& options) {
  if (options.listeners.empty()) return absl::InvalidArgumentError("no listeners");
  for (const ListenerOptions& listener : options.listeners) {
    GYRE_RETURN_IF_ERROR(CheckListener(listener),
                         absl::StrCat("listener ", listener.endpoint.listener_name));
  }
  GYRE_RETURN_IF_ERROR(AtLeast("num_network_threads", options.num_network_threads, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("num_io_threads", options.num_io_threads, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("queued_max_requests", options.queued_max_requests, 1));
  GYRE_RETURN_IF_ERROR(
      AtLeast("socket_listen_backlog_size", options.sockets.listen_backlog_size, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("max_connections", options.max_connections, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("max_connections_per_ip", options.max_connections_per_ip, 0));
  GYRE_RETURN_IF_ERROR(
      AtLeast("max_connection_creation_rate", options.max_connection_creation_rate, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("max_connection_creation_rate_per_ip",
                               options.max_connection_creation_rate_per_ip, 1));
  GYRE_RETURN_IF_ERROR(AtLeast("quota_window_num", options.quota_window_num, 2));
  GYRE_RETURN_IF_ERROR(AtLeast("quota_window_size_seconds", options.quota_window_size_seconds, 1));
  return CheckConnection(options, options.processor.connection);
}

int32_t NetworkThreadsOf(int32_t num_network_threads, const ListenerOptions& listener) {
  return listener.num_network_threads.value_or(listener.privileged ? 1 : num_network_threads);
}

int32_t NetworkThreadsOf(const SocketServerOptions& options, const ListenerOptions& listener) {
  return NetworkThreadsOf(options.num_network_threads, listener);
}

}  // namespace gyre
