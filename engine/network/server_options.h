// Every number of the network layer in one struct. Names follow Kafka's configs
// where it has one; the flags of the same name are defined by the program.
//
// [least, most] beside a field is what CheckOptions lets pass; a field without one takes
// whatever its type does.
//
// Threads: immutable once the server is built.
#ifndef GYRE_ENGINE_NETWORK_SERVER_OPTIONS_H_
#define GYRE_ENGINE_NETWORK_SERVER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/base/limits.h"
#include "engine/network/endpoint.h"
#include "engine/network/frame_decoder.h"
#include "engine/network/request_lane.h"
#include "engine/uring/ring.h"

namespace gyre {

class MetricRegistry;
class RequestHandler;

// Where a handler runs.
enum class Dispatch : uint8_t {
  kPool,    // always on a handler thread
  kInline,  // on the processor when RequestHandler::RunsInline allows it
};

// Who accepts a listener's connections.
enum class AcceptMode : uint8_t {
  kAcceptor,   // one thread, which gives each to the processor with the fewest
  kReusePort,  // every processor, from a listening socket of its own (SO_REUSEPORT)
};

// How a file slice reaches the socket.
enum class FileTransfer : uint8_t {
  kAuto,      // small: copied; hot: sendfile; cold: splice
  kSendfile,  // inline sendfile, hot or cold
  kSplice,    // file -> pipe through the ring, pipe -> socket inline
  kCopy,      // read through the ring into a buffer, sent from there
};

// From a flag's text; false when it is none of the names ("pool", "inline";
// "auto", "sendfile", "splice", "copy").
bool ParseDispatch(absl::string_view text, Dispatch* out);
bool ParseAcceptMode(absl::string_view text, AcceptMode* out);  // "acceptor", "reuseport"
bool ParseFileTransfer(absl::string_view text, FileTransfer* out);

// In front of a request, on the wire and in memory.
inline constexpr int64_t kLengthBytes = 4;
// The most threads of a kind, and the most requests in a lane.
inline constexpr int32_t kMaxNetworkThreads = 256;
inline constexpr int32_t kMaxIoThreads = 1024;
inline constexpr int32_t kMaxQueuedRequests = 1 << 20;
// The longest time in these options, 73 years: the clock does not overflow with it.
inline constexpr int64_t kMaxTimeMs = INT64_MAX / 4'000'000;

struct ListenerOptions {
  // Its listener_name is the listener's; no two of a server are the same, in any case.
  Endpoint endpoint;
  // Where clients are sent; "" and 0: derived from the bound address.
  std::string advertised_host;
  uint16_t advertised_port = 0;
  // How this listener's bytes become frames; null: int32 length prefixes up to
  // socket_request_max_bytes. Borrowed.
  const FrameDecoder* frame_decoder = nullptr;
  // Who serves this listener's requests; null: the server's handler. Borrowed.
  RequestHandler* handler = nullptr;
  // A privileged listener does not share the data plane: it has a request
  // channel, a memory budget and handlers of its own, so that it answers while
  // the data plane is full.
  bool privileged = false;
  int32_t privileged_io_threads = 1;            // [1, kMaxIoThreads]
  int32_t privileged_queued_max_requests = 20;  // [1, kMaxQueuedRequests]

  // Between brokers: protected, as a privileged one is, from connections of others.
  // Both are exempt from the server's max_connections and creation rate, where
  // there is another listener; not from max_connections_per_ip and the rate of an address.
  bool inter_broker = false;

  // What a connection meets that comes when max_connections are open.
  enum class WhenFull : uint8_t {
    kWait,  // it waits in the backlog until one is closed
    kShed,  // the least recently used one is closed for it, one that is idle if any is
  };
  WhenFull when_full = WhenFull::kWait;
  // What the operator calls its max_connections; for the log.
  std::string max_connections_name = "max_connections";

  // Unset: the server's value; for a privileged listener one thread.
  std::optional<int32_t> num_network_threads;           // [1, kMaxNetworkThreads]
  std::optional<int32_t> max_connections;               // [1, INT32_MAX]
  std::optional<int32_t> max_connection_creation_rate;  // [1, INT32_MAX]
};

// Limits one connection obeys; the same for every processor.
struct ConnectionOptions {
  static constexpr int64_t kMaxRequestBytes = (int64_t{1} << 30) - kPageBytes;
  int64_t socket_request_max_bytes = 100 * 1024 * 1024;  // [1, kMaxRequestBytes]
  // Without a request; < 0: never. Else [1, kMaxTimeMs]
  int64_t connections_max_idle_ms = 600'000;
  // From a frame's first byte to its last, while no request is in flight and none waits
  // for memory; < 0: no limit. What happens then is the frame decoder's choice. Else
  // [1, kMaxTimeMs]
  int64_t frame_timeout_ms = -1;
  // Of one connection: how many requests are in flight, and the bytes they take (the
  // request's, or the last answer's if that was larger, until it is answered; the
  // answer's until it is sent; files count nothing). A single one may be larger.
  int32_t max_in_flight_requests_per_connection = 1;             // [1, 1024]
  int64_t max_in_flight_bytes_per_connection = 8 * 1024 * 1024;  // [1, INT64_MAX]
  // Of requests that must wait for their turn; 0: a receive at a time, when none waits.
  int64_t receive_ahead_bytes = 64 * 1024;  // [0, 1 GiB]
  Dispatch dispatch = Dispatch::kPool;
  FileTransfer file_transfer = FileTransfer::kAuto;
  int64_t file_copy_max_bytes = 16 * 1024;  // [0, 1 MiB]
  // How much of one connection's requests is taken in a turn before the others get
  // one; a small request counts as kSmallRequestBytes. With Dispatch::kInline, where the
  // others wait for the handlers too, it is at most kInlineQuantumBytes, and each ns that
  // handlers took lately counts as a byte: 64 small requests or about 16 us, and one in any
  // case.
  static constexpr int64_t kSmallRequestBytes = 256;
  static constexpr int64_t kInlineQuantumBytes = 64 * kSmallRequestBytes;
  int64_t dispatch_quantum_bytes = 64 * 1024;  // [1, INT64_MAX]
  // A request that takes at least this long gets a line in the log; < 0: none does. Else
  // [0, kMaxTimeMs]
  int64_t slow_request_log_ms = -1;
  // How much one connection may send of a file before the others get a turn.
  int64_t send_quantum_bytes = 256 * 1024;  // [1, INT64_MAX]
  // Responses gathered to at least this many bytes are sent without a copy; < 0:
  // none. Below about 16 KiB pinning pages costs more than copying them, on cards
  // that send them as they are.
  int64_t zero_copy_min_bytes = 16 * 1024;
  // Bytes one processor may have lent to the kernel by zero copy, of which one
  // connection may have an eighth; beyond that they are copied. SocketServer lowers it to
  // what memory_limit_bytes leaves.
  int64_t zero_copy_max_pinned_bytes = 16 * 1024 * 1024;  // [0, 1 GiB]
  // What all processors together may hold in memory of answers and of bytes received
  // ahead, each an equal share; beyond it requests wait, and slow readers are closed.
  // SocketServer sets it from its limit, for response_budget_processors.
  int64_t response_budget_bytes = INT64_MAX;  // [1, INT64_MAX]
};

// Set on the listening socket; accepted ones inherit them, with TCP_NODELAY and
// SO_KEEPALIVE.
struct SocketOptions {
  // Clients that wait to be accepted; the kernel takes no more than net.core.somaxconn.
  // Those beyond believe that they are connected, and may be reset later: a burst of
  // reconnects must fit.
  int32_t listen_backlog_size = 4096;  // [1, INT32_MAX]
  int32_t send_buffer_bytes = -1;      // -1: the kernel's default. [-1, INT32_MAX]
  int32_t receive_buffer_bytes = -1;   // -1: the kernel's default. [-1, INT32_MAX]
  std::string congestion_control;      // "": the kernel's default
};

struct ProcessorOptions {
  ConnectionOptions connection;
  // The ring's provided buffers; the count is a power of two.
  uint32_t receive_buffer_bytes = 16 * 1024;  // [1024, 1 MiB]
  uint32_t receive_buffer_count = 512;        // [4, 32768]
  // As many as the ring's tokens can tell apart: what bounds them are the quotas.
  uint32_t max_connections = 1 << 24;  // [1, 1 << 24]
  // A connection that is to be closed is reset when the peer has not acknowledged
  // what it pins by then; one that ended in good order when it also hardly takes any of it.
  int64_t zero_copy_close_timeout_ms = 3'000;  // [0, kMaxTimeMs]
  int64_t response_budget_processors = 1;      // [1, INT64_MAX]
  // While requests wait so, a reader that is so far behind with taking its answers, at
  // the rate of Pace, is closed.
  int64_t response_stall_ms = 1'000;        // [0, kMaxTimeMs]
  int32_t splice_pipe_count = 16;           // [0, 1 << 16]
  uint32_t splice_pipe_bytes = 256 * 1024;  // [4096, 1 GiB]
  // Every turn takes in what the ring has, without waiting: for a driver that
  // calls RunOnce alone (the simulation). Else Wait does it, in the one enter of
  // the turn.
  bool reap_every_turn = false;
};

// Makes the ring of one thread ("acceptor-PLAINTEXT", "processor-0").
using RingFactory =
    std::function<absl::StatusOr<std::unique_ptr<uring::Ring>>(absl::string_view thread_name)>;

struct SocketServerOptions {
  std::vector<ListenerOptions> listeners;
  ProcessorOptions processor;

  // Before the names of this server's threads, where a process has several.
  std::string thread_name_prefix;
  // For each listener that does not say otherwise.
  int32_t num_network_threads = 3;    // [1, kMaxNetworkThreads]
  int32_t num_io_threads = 8;         // [1, kMaxIoThreads]
  int32_t queued_max_requests = 500;  // in each lane. [1, kMaxQueuedRequests]
  // What RequestHandler::LaneOf counts; none: one lane for all. Privileged listeners
  // have one in any case. At most kMaxLanes, no two of one name.
  std::vector<RequestLaneOptions> lanes;
  // Bytes of requests that were read and not yet answered, over all connections.
  // <= 0: no limit; else at least one request of the largest size. Memory of the receive
  // rings is not counted.
  int64_t queued_max_request_bytes = -1;
  SocketOptions sockets;
  // The slab is registered with each ring as fixed buffers, where the kernel has
  // them and the memlock limit allows it; else it is used unregistered, with one
  // line that says so, unless they are required.
  bool require_registered_buffers = false;
  // Bounds slab, receive rings, requests, bytes received ahead and answers together
  // (network/memory_plan.h). <= 0: no limit; else at least LeastMemoryLimit. An answer
  // counts from BufferAllocator::TryAllocate on, or else only from its reply on: what
  // handlers take in other ways meanwhile comes on top.
  int64_t memory_limit_bytes = 0;
  // Slab memory for responses, for requests that straddle receive buffers and for
  // copied file ranges; what does not fit comes from the heap.
  int64_t slab_bytes = 64 * 1024 * 1024;  // [0, 512 GiB]

  AcceptMode accept_mode = AcceptMode::kAcceptor;
  // See network/connection/connection_quotas.h; rates are per second, and INT32_MAX is none.
  int32_t max_connections = INT32_MAX;  // [1, INT32_MAX]
  // Of every listener together, privileged ones too.
  int32_t max_connections_per_ip = INT32_MAX;                 // [0, INT32_MAX]
  std::string max_connections_per_ip_overrides;               // "host:count,…", looked up at Start
  int32_t max_connection_creation_rate = INT32_MAX;           // [1, INT32_MAX]
  int32_t max_connection_creation_rate_per_ip = INT32_MAX;    // [1, INT32_MAX]
  std::string max_connection_creation_rate_per_ip_overrides;  // "host:rate,…", likewise
  int32_t quota_window_num = 11;                              // [2, 1000]
  int32_t quota_window_size_seconds = 1;                      // [1, 3600]

  // Called on the controlling thread. Null: the kernel's ring (uring/uring_ring.h)
  // with every feature it has.
  RingFactory ring_factory;
  const Clock* clock = nullptr;  // null: the real one

  // Null: nothing is counted. `api_names[i]` names Request::api == i.
  MetricRegistry* metrics = nullptr;
  std::vector<std::string> api_names;
  // Requests of API i are counted by version up to api_max_versions[i], as far as it goes.
  std::vector<int16_t> api_max_versions;
};

// INVALID_ARGUMENT names the first option that is out of range, and the range. SocketServer
// makes nothing of options that do not pass: its Open and Start return this.
absl::Status CheckOptions(const SocketServerOptions& options);

// Whether a server that was started with `options` may go on with `connection`.
absl::Status CheckLiveOptions(const SocketServerOptions& options,
                              const ConnectionOptions& connection);

// Whether a lane may weigh that much; INVALID_ARGUMENT names the lane and the range.
absl::Status CheckLaneWeight(const RequestLaneOptions& lane);

// How many processors the listener gets: its own number, or one if it is privileged, or
// the server's.
int32_t NetworkThreadsOf(int32_t num_network_threads, const ListenerOptions& listener);
int32_t NetworkThreadsOf(const SocketServerOptions& options, const ListenerOptions& listener);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_SERVER_OPTIONS_H_
