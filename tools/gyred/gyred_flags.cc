#include "tools/gyred/gyred_flags.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/network/endpoint.h"
#include "gflags/gflags.h"

DEFINE_string(listeners, "PLAINTEXT://127.0.0.1:9092", "");
DEFINE_string(advertised_listeners, "", "");
DEFINE_string(log_dirs, "", "");
DEFINE_int32(node_id, 1, "");
DEFINE_string(cluster_id, "", "");
DEFINE_int32(num_partitions, 1, "");
DEFINE_int32(default_replication_factor, 1, "");
DEFINE_bool(auto_create_topics_enable, true, "");
DEFINE_int32(message_max_bytes, 1048588, "");
DEFINE_int32(log_segment_bytes, 1 << 30, "");
DEFINE_int32(fetch_max_bytes, 57671680, "");
DEFINE_string(log_flush, "group", "");
DEFINE_int64(log_flush_interval_ms, 1000, "");
DEFINE_int32(num_network_threads, 3, "");
DEFINE_int32(num_io_threads, 8, "");
DEFINE_string(dispatch, "pool", "");
DEFINE_int32(queued_max_requests, 500, "");
DEFINE_int64(queued_max_request_bytes, -1, "");
DEFINE_int64(socket_request_max_bytes, 104857600, "");
DEFINE_int64(connections_max_idle_ms, 600000, "");
DEFINE_int32(max_connections, std::numeric_limits<int32_t>::max(), "");
DEFINE_int32(max_connections_per_ip, std::numeric_limits<int32_t>::max(), "");
DEFINE_int32(max_in_flight_requests_per_connection, 1, "");
DEFINE_int32(socket_listen_backlog_size, 50, "");
DEFINE_int32(socket_send_buffer_bytes, -1, "");
DEFINE_int32(socket_receive_buffer_bytes, -1, "");
DEFINE_string(socket_congestion_control, "", "");
DEFINE_string(file_transfer, "auto", "");
DEFINE_int64(file_copy_max_bytes, 16384, "");
DEFINE_string(uring_disable, "", "");
DEFINE_bool(require_registered_buffers, false, "");
DEFINE_int64(drain_timeout_ms, 30000, "");
DEFINE_bool(check_config, false, "");

namespace gyre {

namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
// What the network layer can take: its largest range, less a page.
constexpr int64_t kMaxRequestBytes = (int64_t{1} << 30) - 4096;
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

struct FlagHelp {
  const char* name;
  const char* text;
};
struct FlagGroup {
  const char* title;
  std::vector<FlagHelp> flags;
};

const std::vector<FlagGroup>& Groups() {
  static const auto& groups = *new std::vector<FlagGroup>{
      {"Where it listens, and what clients are told",
       {{"listeners",
         "NAME://HOST:PORT,… to bind. HOST is an IPv4 or [IPv6] literal, localhost, "
         "or empty for every address; port 0 lets the kernel choose and prints it."},
        {"advertised_listeners",
         "NAME://HOST:PORT,… that clients are sent to, by listener name. "
         "Empty: the bound address. Needed when clients reach this host "
         "under another name."}}},
      {"Its data",
       {{"log_dirs",
         "The one directory that holds everything; made if missing (one level). "
         "Required."},
        {"log_flush",
         "group: acks=all is answered after an fdatasync that many appends share, and "
         "consumers see only synced records. interval: synced every "
         "--log_flush_interval_ms. none: left to the kernel, as Kafka does by "
         "default."},
        {"log_flush_interval_ms", "For --log_flush=interval."},
        {"log_segment_bytes", "A topic's segment.bytes where the topic does not say."},
        {"message_max_bytes",
         "A topic's max.message.bytes where the topic does not say: the "
         "largest batch a producer may send."},
        {"fetch_max_bytes", "The most records in one fetch response; one batch may exceed it."}}},
      {"The cluster and its topics",
       {{"node_id", "This broker's number; kept in the data directory."},
        {"cluster_id",
         "22 characters of URL-safe base64. Empty: the data directory's own, or a "
         "fresh one."},
        {"num_partitions", "For topics created without a number of partitions."},
        {"default_replication_factor",
         "For topics created without one; this broker is alone, so "
         "only 1 works."},
        {"auto_create_topics_enable", "Create a topic when a client asks about it by name."}}},
      {"Threads and queues",
       {{"num_network_threads", "Processors, each with an io_uring of its own."},
        {"num_io_threads", "Handlers, which run the requests."},
        {"dispatch",
         "pool: requests run on handlers. inline: those that never block run on the "
         "processor."},
        {"queued_max_requests",
         "Requests that wait for a handler; a connection that finds the "
         "queue full waits alone."},
        {"queued_max_request_bytes", "Bytes of requests read and not yet answered; -1: no limit."},
        {"max_in_flight_requests_per_connection",
         "Requests of one connection started at once; "
         "answers keep their order. Kafka's is 1."}}},
      {"Connections",
       {{"max_connections", "Connections at most; the next ones wait to be accepted."},
        {"max_connections_per_ip", "From one address; the next ones are closed."},
        {"connections_max_idle_ms", "Closed after this long without a request; -1: never."},
        {"socket_request_max_bytes", "A larger request closes its connection."},
        {"socket_listen_backlog_size", "Connections the kernel holds before they are accepted."},
        {"socket_send_buffer_bytes", "-1: the kernel's choice."},
        {"socket_receive_buffer_bytes", "-1: the kernel's choice."},
        {"socket_congestion_control", "A name such as bbr or cubic; empty: the kernel's choice."},
        {"drain_timeout_ms",
         "On SIGTERM or SIGINT: how long requests in flight may take. A "
         "second signal ends at once."}}},
      {"io_uring and file transfer",
       {{"uring_disable",
         "Features to do without, comma-separated, or all: then only what kernel "
         "5.19 has is used."},
        {"require_registered_buffers",
         "Refuse to start where the kernel refuses registered "
         "buffers (memlock limit)."},
        {"file_transfer", "How records leave a file: auto, sendfile, splice or copy."},
        {"file_copy_max_bytes",
         "auto: ranges up to this are copied beside the response's "
         "header."}}},
      {"This program",
       {{"check_config", "Check the flags, start nothing, touch nothing."},
        {"version", "Print the version."},
        {"help", "Print this."},
        {"flagfile", "Read flags from a file, one per line."}}},
  };
  return groups;
}

// Breaks `text` into lines of at most `width`, each after `indent` spaces.
void AppendWrapped(absl::string_view text, size_t indent, size_t width, std::string* out) {
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      out->push_back('\n');
      column = 0;
    }
    if (column == 0) {
      out->append(indent, ' ');
    } else {
      out->push_back(' ');
      ++column;
    }
    absl::StrAppend(out, word);
    column += word.size();
  }
  out->push_back('\n');
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  const std::string range = max == kInt64Max || max == kInt32Max
                                ? absl::StrCat("at least ", min)
                                : absl::StrCat("from ", min, " to ", max);
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, " is not valid; it must be ", range));
}

struct Range {
  const char* flag;
  int64_t value;
  int64_t min;
  int64_t max;
};

absl::Status CheckRanges() {
  const Range ranges[] = {
      {"node_id", FLAGS_node_id, 0, kInt32Max},
      {"num_partitions", FLAGS_num_partitions, 1, 10'000},
      {"default_replication_factor", FLAGS_default_replication_factor, 1, INT16_MAX},
      {"message_max_bytes", FLAGS_message_max_bytes, 0, kInt32Max},
      {"log_segment_bytes", FLAGS_log_segment_bytes, 14, kInt32Max},
      {"fetch_max_bytes", FLAGS_fetch_max_bytes, 1024, 1 << 30},
      {"log_flush_interval_ms", FLAGS_log_flush_interval_ms, 1, kInt32Max},
      {"num_network_threads", FLAGS_num_network_threads, 1, 256},
      {"num_io_threads", FLAGS_num_io_threads, 1, 1024},
      {"queued_max_requests", FLAGS_queued_max_requests, 1, 1 << 20},
      {"queued_max_request_bytes", FLAGS_queued_max_request_bytes, -1, kInt64Max},
      {"socket_request_max_bytes", FLAGS_socket_request_max_bytes, 1, kMaxRequestBytes},
      {"connections_max_idle_ms", FLAGS_connections_max_idle_ms, -1, kInt64Max / 4'000'000},
      {"max_connections", FLAGS_max_connections, 1, kInt32Max},
      {"max_connections_per_ip", FLAGS_max_connections_per_ip, 1, kInt32Max},
      {"max_in_flight_requests_per_connection", FLAGS_max_in_flight_requests_per_connection, 1,
       1024},
      {"socket_listen_backlog_size", FLAGS_socket_listen_backlog_size, 1, 65'535},
      {"socket_send_buffer_bytes", FLAGS_socket_send_buffer_bytes, -1, kInt32Max},
      {"socket_receive_buffer_bytes", FLAGS_socket_receive_buffer_bytes, -1, kInt32Max},
      {"file_copy_max_bytes", FLAGS_file_copy_max_bytes, 0, 1 << 20},
      {"drain_timeout_ms", FLAGS_drain_timeout_ms, 0, 3'600'000},
  };
  for (const Range& range : ranges) {
    GYRE_RETURN_IF_ERROR(CheckRange(range.flag, range.value, range.min, range.max));
  }
  const int64_t least_budget = FLAGS_socket_request_max_bytes + 4;
  if (FLAGS_queued_max_request_bytes > 0 && FLAGS_queued_max_request_bytes < least_budget) {
    return absl::InvalidArgumentError(
        absl::StrCat("--queued_max_request_bytes=", FLAGS_queued_max_request_bytes,
                     " is out of range; it must be -1, 0 or at least ", least_budget,
                     " (socket_request_max_bytes and its length)"));
  }
  return absl::OkStatus();
}

absl::Status BadChoice(absl::string_view flag, absl::string_view value, absl::string_view choices) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, " is not valid; it must be ", choices));
}

absl::Status ParseChoices(BrokerServerOptions& options) {
  if (FLAGS_log_flush == "group") {
    options.flush_mode = FlushMode::kGroup;
  } else if (FLAGS_log_flush == "interval") {
    options.flush_mode = FlushMode::kInterval;
  } else if (FLAGS_log_flush == "none") {
    options.flush_mode = FlushMode::kNone;
  } else {
    return BadChoice("log_flush", FLAGS_log_flush, "group, interval or none");
  }
  ConnectionOptions& connection = options.network.processor.connection;
  if (!ParseDispatch(FLAGS_dispatch, &connection.dispatch)) {
    return BadChoice("dispatch", FLAGS_dispatch, "pool or inline");
  }
  if (!ParseFileTransfer(FLAGS_file_transfer, &connection.file_transfer)) {
    return BadChoice("file_transfer", FLAGS_file_transfer, "auto, sendfile, splice or copy");
  }
  GYRE_ASSIGN_OR_RETURN(options.uring_hidden, uring::ParseDisabled(FLAGS_uring_disable),
                        absl::StrCat("--uring_disable=", FLAGS_uring_disable));
  return absl::OkStatus();
}

absl::Status ParseListeners(BrokerServerOptions& options) {
  GYRE_ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints, ParseEndpoints(FLAGS_listeners),
                        "--listeners");
  for (const Endpoint& endpoint : endpoints) {
    // Kafka's own names for protocols that are not plain text.
    const std::string name = absl::AsciiStrToUpper(endpoint.listener_name);
    if (name == "SSL" || name == "SASL_PLAINTEXT" || name == "SASL_SSL") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--listeners: ", endpoint.ToString(),
          " would be served as PLAINTEXT, neither encrypted "
          "nor authenticated; name it PLAINTEXT, or anything but a security protocol"));
    }
    options.network.listeners.emplace_back().endpoint = endpoint;
  }
  if (FLAGS_advertised_listeners.empty()) return absl::OkStatus();
  for (absl::string_view text : absl::StrSplit(FLAGS_advertised_listeners, ',')) {
    // Clients resolve the name, so any host will do; it only has to be there.
    const size_t separator = text.find("://");
    const size_t colon = text.rfind(':');
    uint32_t port = 0;
    if (separator == absl::string_view::npos || colon <= separator + 3 ||
        !absl::SimpleAtoi(text.substr(colon + 1), &port) || port == 0 || port > 65'535) {
      return BadChoice("advertised_listeners", text,
                       "NAME://HOST:PORT with a port from 1 to 65535");
    }
    const absl::string_view name = text.substr(0, separator);
    bool found = false;
    for (ListenerOptions& listener : options.network.listeners) {
      if (listener.endpoint.listener_name != name) continue;
      listener.advertised_host = std::string(text.substr(separator + 3, colon - separator - 3));
      listener.advertised_port = static_cast<uint16_t>(port);
      found = true;
    }
    if (!found) {
      return BadChoice("advertised_listeners", text, "named like one of --listeners");
    }
  }
  return absl::OkStatus();
}

absl::Status ParseData(BrokerServerOptions& options) {
  if (FLAGS_log_dirs.empty()) {
    return absl::InvalidArgumentError(
        "--log_dirs is missing; name the directory that shall hold the data");
  }
  if (absl::StrContains(FLAGS_log_dirs, ',')) {
    return BadChoice("log_dirs", FLAGS_log_dirs, "one directory");
  }
  options.log_dir = FLAGS_log_dirs;
  if (!FLAGS_cluster_id.empty()) {
    options.cluster_id = Uuid::Parse(FLAGS_cluster_id);
    if (!options.cluster_id.has_value()) {
      return BadChoice("cluster_id", FLAGS_cluster_id, "22 characters of URL-safe base64");
    }
  }
  return absl::OkStatus();
}

void CopyValues(BrokerServerOptions& options) {
  BrokerConfig& broker = options.broker;
  broker.node_id = FLAGS_node_id;
  broker.num_partitions = FLAGS_num_partitions;
  broker.default_replication_factor = static_cast<int16_t>(FLAGS_default_replication_factor);
  broker.auto_create_topics_enable = FLAGS_auto_create_topics_enable;
  broker.fetch_max_bytes = FLAGS_fetch_max_bytes;
  broker.topic_defaults.max_message_bytes = FLAGS_message_max_bytes;
  broker.topic_defaults.segment_bytes = FLAGS_log_segment_bytes;
  options.flush_interval_ms = FLAGS_log_flush_interval_ms;
  options.drain_timeout_ms = FLAGS_drain_timeout_ms;
  options.require_registered_buffers = FLAGS_require_registered_buffers;

  SocketServerOptions& network = options.network;
  network.num_network_threads = FLAGS_num_network_threads;
  network.num_io_threads = FLAGS_num_io_threads;
  network.queued_max_requests = FLAGS_queued_max_requests;
  network.queued_max_request_bytes = FLAGS_queued_max_request_bytes;
  network.max_connections = FLAGS_max_connections;
  network.max_connections_per_ip = FLAGS_max_connections_per_ip;
  network.sockets.listen_backlog_size = FLAGS_socket_listen_backlog_size;
  network.sockets.send_buffer_bytes = FLAGS_socket_send_buffer_bytes;
  network.sockets.receive_buffer_bytes = FLAGS_socket_receive_buffer_bytes;
  network.sockets.congestion_control = FLAGS_socket_congestion_control;
  ConnectionOptions& connection = network.processor.connection;
  connection.socket_request_max_bytes = FLAGS_socket_request_max_bytes;
  connection.connections_max_idle_ms = FLAGS_connections_max_idle_ms;
  connection.max_in_flight_requests_per_connection = FLAGS_max_in_flight_requests_per_connection;
  connection.file_copy_max_bytes = FLAGS_file_copy_max_bytes;
}

bool IsSet(const char* flag) {
  return gflags::GetCommandLineFlagInfoOrDie(flag).current_value == "true";
}

}  // namespace

absl::StatusOr<BrokerServerOptions> OptionsFromFlags() {
  BrokerServerOptions options;
  GYRE_RETURN_IF_ERROR(CheckRanges());
  GYRE_RETURN_IF_ERROR(ParseChoices(options));
  GYRE_RETURN_IF_ERROR(ParseListeners(options));
  GYRE_RETURN_IF_ERROR(ParseData(options));
  CopyValues(options);
  return options;
}

std::string HelpText() {
  std::string text =
      "gyred: a broker that speaks the Kafka protocol, on io_uring.\n\n"
      "  gyred --log_dirs=/var/lib/gyre --listeners=PLAINTEXT://127.0.0.1:9092\n\n"
      "SIGTERM, SIGINT or SIGHUP drains and stops it; SIGUSR1 prints its metrics to stderr.\n";
  for (const FlagGroup& group : Groups()) {
    absl::StrAppend(&text, "\n", group.title, "\n");
    for (const FlagHelp& flag : group.flags) {
      const std::string value = gflags::GetCommandLineFlagInfoOrDie(flag.name).default_value;
      absl::StrAppend(&text, "  --", flag.name, value.empty() ? "" : "=", value, "\n");
      AppendWrapped(flag.text, 6, 84, &text);
    }
  }
  return text;
}

bool HelpWanted() { return IsSet("help") || IsSet("helpfull") || IsSet("helpshort"); }
bool VersionWanted() { return IsSet("version"); }
bool CheckConfigWanted() { return FLAGS_check_config; }

}  // namespace gyre
