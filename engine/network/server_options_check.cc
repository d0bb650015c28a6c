// The ranges of the options, where every value that cannot work is refused.
#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/memory/large_ranges.h"
#include "engine/network/server_options.h"

namespace gyre {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
// The kernel's bound on a ring of provided buffers (io_uring_register_buf_ring(3)).
constexpr int64_t kMaxReceiveBuffers = 32'768;
// A token has this many places for them (uring/completion.h).
constexpr int64_t kMaxSlots = 1 << 24;

static_assert(ConnectionOptions::kMaxRequestBytes ==
              int64_t{LargeRanges::kMaxRangeBytes} - kPageBytes);

struct Range {
  absl::string_view name;
  int64_t value;
  int64_t least;
  int64_t most;
  absl::string_view below = "";  // what all negative values mean, where they may be
};

absl::Status Check(const Range& range) {
  if (range.value < 0 && !range.below.empty()) return absl::OkStatus();
  if (range.value >= range.least && range.value <= range.most) return absl::OkStatus();
  std::string good = absl::StrCat("from ", range.least, " to ", range.most);
  if (range.most == INT64_MAX || range.most == INT32_MAX) {
    good = absl::StrCat("the least is ", range.least);
  }
  if (!range.below.empty()) absl::StrAppend(&good, ", or -1: ", range.below);
  return absl::InvalidArgumentError(
      absl::StrCat(range.name, "=", range.value, " is out of range; ", good));
}

template <size_t kCount>
absl::Status CheckAll(const Range (&ranges)[kCount]) {
  for (const Range& range : ranges) GYRE_RETURN_IF_ERROR(Check(range));
  return absl::OkStatus();
}

absl::Status CheckListener(const ListenerOptions& listener) {
  return CheckAll({
      {"num_network_threads", listener.num_network_threads.value_or(1), 1, kMaxNetworkThreads},
      {"max_connections", listener.max_connections.value_or(1), 1, INT32_MAX},
      {"max_connection_creation_rate", listener.max_connection_creation_rate.value_or(1), 1,
       INT32_MAX},
      {"privileged_io_threads", listener.privileged_io_threads, 1, kMaxIoThreads},
      {"privileged_queued_max_requests", listener.privileged_queued_max_requests, 1,
       kMaxQueuedRequests},
  });
}

absl::Status CheckListeners(const std::vector<ListenerOptions>& listeners) {
  if (listeners.empty()) return absl::InvalidArgumentError("no listeners");
  for (size_t i = 0; i < listeners.size(); ++i) {
    const std::string& name = listeners[i].endpoint.listener_name;
    GYRE_RETURN_IF_ERROR(CheckListener(listeners[i]), absl::StrCat("listener ", name));
    for (size_t j = 0; j < i; ++j) {
      const std::string& other = listeners[j].endpoint.listener_name;
      if (absl::AsciiStrToUpper(other) == absl::AsciiStrToUpper(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("two listeners are named \"", name, "\"; each has a name of its own"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLanes(const std::vector<RequestLaneOptions>& lanes) {
  if (lanes.size() > size_t{kMaxLanes}) {
    return absl::InvalidArgumentError(
        absl::StrCat(lanes.size(), " lanes; there are at most ", kMaxLanes));
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    GYRE_RETURN_IF_ERROR(CheckLaneWeight(lanes[i]));
    for (size_t j = 0; j < i; ++j) {
      if (lanes[j].name == lanes[i].name) {
        return absl::InvalidArgumentError(absl::StrCat("two lanes are named \"", lanes[i].name,
                                                       "\"; each has a name of its own"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConnection(const SocketServerOptions& options,
                             const ConnectionOptions& connection) {
  GYRE_RETURN_IF_ERROR(CheckAll({
      {"socket_request_max_bytes", connection.socket_request_max_bytes, 1,
       ConnectionOptions::kMaxRequestBytes},
      {"connections_max_idle_ms", connection.connections_max_idle_ms, 1, kMaxTimeMs, "never"},
      {"frame_timeout_ms", connection.frame_timeout_ms, 1, kMaxTimeMs, "no limit"},
      {"max_in_flight_requests_per_connection", connection.max_in_flight_requests_per_connection, 1,
       1024},
      {"max_in_flight_bytes_per_connection", connection.max_in_flight_bytes_per_connection, 1,
       INT64_MAX},
      {"receive_ahead_bytes", connection.receive_ahead_bytes, 0, kGiB},
      {"file_copy_max_bytes", connection.file_copy_max_bytes, 0, 1 << 20},
      {"dispatch_quantum_bytes", connection.dispatch_quantum_bytes, 1, INT64_MAX},
      {"slow_request_log_ms", connection.slow_request_log_ms, 0, kMaxTimeMs, "none"},
      {"send_quantum_bytes", connection.send_quantum_bytes, 1, INT64_MAX},
      {"zero_copy_max_pinned_bytes", connection.zero_copy_max_pinned_bytes, 0, kGiB},
      {"response_budget_bytes", connection.response_budget_bytes, 1, INT64_MAX},
  }));
  if (options.queued_max_request_bytes <= 0) return absl::OkStatus();
  return Check({"queued_max_request_bytes", options.queued_max_request_bytes,
                connection.socket_request_max_bytes + kLengthBytes, INT64_MAX});
}

absl::Status CheckProcessor(const ProcessorOptions& processor) {
  GYRE_RETURN_IF_ERROR(CheckAll({
      {"receive_buffer_bytes", processor.receive_buffer_bytes, 1024, 1 << 20},
      {"receive_buffer_count", processor.receive_buffer_count, 4, kMaxReceiveBuffers},
      {"processor.max_connections", processor.max_connections, 1, kMaxSlots},
      {"zero_copy_close_timeout_ms", processor.zero_copy_close_timeout_ms, 0, kMaxTimeMs},
      {"response_budget_processors", processor.response_budget_processors, 1, INT64_MAX},
      {"response_stall_ms", processor.response_stall_ms, 0, kMaxTimeMs},
      {"splice_pipe_count", processor.splice_pipe_count, 0, 1 << 16},
      {"splice_pipe_bytes", processor.splice_pipe_bytes, kPageBytes, kGiB},
  }));
  if ((processor.receive_buffer_count & (processor.receive_buffer_count - 1)) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("receive_buffer_count=", processor.receive_buffer_count, " is no power of two"));
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
  GYRE_RETURN_IF_ERROR(CheckListeners(options.listeners));
  GYRE_RETURN_IF_ERROR(CheckAll({
      {"num_network_threads", options.num_network_threads, 1, kMaxNetworkThreads},
      {"num_io_threads", options.num_io_threads, 1, kMaxIoThreads},
      {"queued_max_requests", options.queued_max_requests, 1, kMaxQueuedRequests},
      {"slab_bytes", options.slab_bytes, 0, 512 * kGiB},
      {"socket_listen_backlog_size", options.sockets.listen_backlog_size, 1, INT32_MAX},
      {"socket_send_buffer_bytes", options.sockets.send_buffer_bytes, -1, INT32_MAX},
      {"socket_receive_buffer_bytes", options.sockets.receive_buffer_bytes, -1, INT32_MAX},
      {"max_connections", options.max_connections, 1, INT32_MAX},
      {"max_connections_per_ip", options.max_connections_per_ip, 0, INT32_MAX},
      {"max_connection_creation_rate", options.max_connection_creation_rate, 1, INT32_MAX},
      {"max_connection_creation_rate_per_ip", options.max_connection_creation_rate_per_ip, 1,
       INT32_MAX},
      {"quota_window_num", options.quota_window_num, 2, 1000},
      {"quota_window_size_seconds", options.quota_window_size_seconds, 1, 3600},
  }));
  GYRE_RETURN_IF_ERROR(CheckLanes(options.lanes));
  GYRE_RETURN_IF_ERROR(CheckProcessor(options.processor));
  return CheckConnection(options, options.processor.connection);
}

absl::Status CheckLaneWeight(const RequestLaneOptions& lane) {
  const std::string name = absl::StrCat("weight of lane ", lane.name);
  return Check({name, lane.weight, 1, kMaxLaneWeight});
}

}  // namespace gyre
