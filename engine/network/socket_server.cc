#include "engine/network/socket_server.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/memory/large_ranges.h"
#include "engine/memory/memory_pool.h"
#include "engine/memory/slab_pool.h"
#include "engine/network/acceptor.h"
#include "engine/network/connection_quotas.h"
#include "engine/network/listen_socket.h"
#include "engine/network/network_metrics.h"
#include "engine/network/processor.h"
#include "engine/network/request_channel.h"
#include "engine/network/request_handler_pool.h"
#include "engine/network/request_metrics.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Ranges cost address space only until their bytes arrive; what bounds memory is
// queued_max_request_bytes.
constexpr int64_t kLargeRangesBytes = int64_t{1} << 40;
// Stop waits this long for operations to be retired and handlers to answer.
constexpr int64_t kStopWaitMs = 5'000;
constexpr int64_t kPollMs = 1;

int64_t RequestBudget(const SocketServerOptions& options) {
  return options.queued_max_request_bytes > 0 ? options.queued_max_request_bytes
                                              : MemoryPool::kUnbounded;
}

int64_t ReceiveRingBytes(const ProcessorOptions& options) {
  return int64_t{options.receive_buffer_bytes} * options.receive_buffer_count;
}

absl::Status CheckOptions(const SocketServerOptions& options) {
  const auto at_least = [](absl::string_view name, int64_t value, int64_t least) {
    if (value >= least) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=", value, " is out of range; the least is ", least));
  };
  const ConnectionOptions& connection = options.processor.connection;
  if (options.listeners.empty()) return absl::InvalidArgumentError("no listeners");
  GYRE_RETURN_IF_ERROR(at_least("num_network_threads", options.num_network_threads, 1));
  GYRE_RETURN_IF_ERROR(at_least("num_io_threads", options.num_io_threads, 1));
  GYRE_RETURN_IF_ERROR(at_least("queued_max_requests", options.queued_max_requests, 1));
  GYRE_RETURN_IF_ERROR(
      at_least("socket_listen_backlog_size", options.sockets.listen_backlog_size, 1));
  GYRE_RETURN_IF_ERROR(at_least("max_connections", options.max_connections, 1));
  GYRE_RETURN_IF_ERROR(at_least("max_connections_per_ip", options.max_connections_per_ip, 1));
  GYRE_RETURN_IF_ERROR(
      at_least("socket_request_max_bytes", connection.socket_request_max_bytes, 1));
  GYRE_RETURN_IF_ERROR(at_least("max_in_flight_requests_per_connection",
                                connection.max_in_flight_requests_per_connection, 1));
  if (connection.socket_request_max_bytes > int64_t{LargeRanges::kMaxRangeBytes} - kPageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket_request_max_bytes=", connection.socket_request_max_bytes,
                     " is out of range; the most is ", LargeRanges::kMaxRangeBytes - kPageBytes));
  }
  if (options.queued_max_request_bytes > 0) {
    GYRE_RETURN_IF_ERROR(at_least("queued_max_request_bytes", options.queued_max_request_bytes,
                                  connection.socket_request_max_bytes + 4));
  }
  return absl::OkStatus();
}

}  // namespace

struct SocketServer::State {
  State(SocketServerOptions server_options, RequestHandler& request_handler)
      : options(std::move(server_options)),
        handler(request_handler),
        clock(options.clock != nullptr ? *options.clock : Clock::Real()),
        frame_decoder(options.processor.connection.socket_request_max_bytes),
        memory(RequestBudget(options)),
        large_ranges(LargeRangesConfig{.capacity_bytes = kLargeRangesBytes}),
        descriptor_limit(RaiseDescriptorLimit()),
        quotas(std::min(options.max_connections, ConnectionsWithin(descriptor_limit)),
               options.max_connections_per_ip),
        metrics(options.metrics),
        request_metrics(options.metrics, options.api_names),
        channel(static_cast<uint32_t>(std::max(1, options.queued_max_requests)), clock, memory) {}

  absl::Status Open();
  absl::Status StartThreads();
  void RegisterGauges();
  void StopAccepting();
  int64_t OpenConnections() const;
  bool AwaitNoConnections(int64_t deadline_ms) const;
  void Stop();

  const SocketServerOptions options;
  RequestHandler& handler;
  const Clock& clock;
  const Int32LengthPrefixed frame_decoder;

  // In the order in which they must outlive each other.
  MemoryPool memory;
  LargeRanges large_ranges;
  std::unique_ptr<SlabPool> slab;
  const uint64_t descriptor_limit;
  ConnectionQuotas quotas;
  NetworkMetrics metrics;
  RequestMetrics request_metrics;
  RequestChannel channel;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<std::unique_ptr<Processor>> processors;
  std::vector<std::unique_ptr<Acceptor>> acceptors;
  std::unique_ptr<RequestHandlerPool> handlers;
  std::vector<std::unique_ptr<ThreadRunner>> processor_threads;
  std::vector<std::unique_ptr<ThreadRunner>> acceptor_threads;
  std::vector<Endpoint> bound_endpoints;
  bool started = false;
  bool stopped = false;
};

absl::Status SocketServer::State::Open() {
  GYRE_RETURN_IF_ERROR(CheckOptions(options));
  auto make_ring = options.ring_factory;
  if (make_ring == nullptr) {
    GYRE_ASSIGN_OR_RETURN(uring::Features features, uring::ProbeFeatures(uring::FeatureSet()));
    make_ring = [features](absl::string_view) {
      return uring::CreateUringRing(features, uring::RingOptions());
    };
  }
  const int64_t run_bytes =
      (ReceiveRingBytes(options.processor) + kSlabMaxBytes) * options.num_network_threads;
  GYRE_ASSIGN_OR_RETURN(
      slab, SlabPool::Create(SlabPoolConfig::Evenly(options.slab_bytes, run_bytes)), "memory");

  std::vector<ListenSocket> sockets;
  for (const ListenerOptions& listener_options : options.listeners) {
    GYRE_ASSIGN_OR_RETURN(ListenSocket socket,
                          OpenListenSocket(listener_options.endpoint, options.sockets));
    auto listener = std::make_unique<Listener>();
    listener->index = static_cast<int>(listeners.size());
    listener->bound = socket.bound;
    listener->advertised_host = listener_options.advertised_host.empty()
                                    ? DefaultAdvertisedHost(socket.bound)
                                    : listener_options.advertised_host;
    listener->advertised_port = listener_options.advertised_port != 0
                                    ? listener_options.advertised_port
                                    : socket.bound.port;
    listener->frame_decoder =
        listener_options.frame_decoder != nullptr ? listener_options.frame_decoder : &frame_decoder;
    listeners.push_back(std::move(listener));
    bound_endpoints.push_back(socket.bound);
    sockets.push_back(std::move(socket));
  }

  std::vector<Processor*> targets;
  for (int i = 0; i < options.num_network_threads; ++i) {
    const std::string name = absl::StrCat("processor-", i);
    GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring, make_ring(name), name);
    char* receive_base = slab->CarveRun(options.processor.receive_buffer_bytes,
                                        options.processor.receive_buffer_count);
    if (receive_base == nullptr) return absl::InternalError(absl::StrCat(name, ": no room"));
    processors.push_back(std::make_unique<Processor>(
        i, options.processor,
        Processor::Shared{channel, handler, *slab, large_ranges, metrics, request_metrics},
        std::move(ring), receive_base));
    targets.push_back(processors.back().get());
    processor_threads.push_back(
        std::make_unique<ThreadRunner>(name, *processors.back(), *processors.back(), clock));
  }
  for (size_t i = 0; i < sockets.size(); ++i) {
    const std::string name = absl::StrCat("acceptor-", listeners[i]->bound.listener_name);
    GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring, make_ring(name), name);
    acceptors.push_back(std::make_unique<Acceptor>(*listeners[i], std::move(sockets[i].fd),
                                                   std::move(ring), quotas, targets, metrics));
    acceptor_threads.push_back(
        std::make_unique<ThreadRunner>(name, *acceptors.back(), *acceptors.back(), clock));
  }
  handlers = std::make_unique<RequestHandlerPool>(options.num_io_threads, channel, handler, clock);
  return absl::OkStatus();
}

absl::Status SocketServer::State::StartThreads() {
  started = true;
  for (const auto& thread : processor_threads) thread->Start();
  absl::Status registered;
  for (const auto& processor : processors) {
    GYRE_RETURN_IF_ERROR(processor->AwaitStart(), absl::StrCat("processor-", processor->index()));
    registered.Update(processor->registered_buffers());
  }
  if (!registered.ok()) {
    if (options.require_registered_buffers) {
      return Annotate(registered, "require_registered_buffers");
    }
    LOG(INFO) << "going on without registered buffers: " << registered.message();
  }
  handlers->Start();
  for (const auto& thread : acceptor_threads) thread->Start();
  for (const auto& acceptor : acceptors) GYRE_RETURN_IF_ERROR(acceptor->AwaitStart(), "acceptor");
  return absl::OkStatus();
}

void SocketServer::State::RegisterGauges() {
  if (options.metrics == nullptr) return;
  options.metrics->AddCallbackGauge(
      "request_queue_size", "Runs waiting for a handler.", "",
      [](const void* context) {
        return static_cast<int64_t>(static_cast<const RequestChannel*>(context)->queued_runs());
      },
      &channel);
  options.metrics->AddCallbackGauge(
      "request_memory_used_bytes", "Bytes of requests read and not yet answered.", "",
      [](const void* context) { return static_cast<const MemoryPool*>(context)->used_bytes(); },
      &memory);
}

void SocketServer::State::StopAccepting() {
  for (const auto& acceptor : acceptors) acceptor->StopAccepting();
}

int64_t SocketServer::State::OpenConnections() const {
  int64_t count = 0;
  for (const auto& processor : processors) count += processor->open_connections();
  return count;
}

bool SocketServer::State::AwaitNoConnections(int64_t deadline_ms) const {
  // Shutdown's own thread waits here, on the real time, by looking now and then:
  // nothing on the data path pays for it.
  for (int64_t waited_ms = 0;; waited_ms += kPollMs) {
    bool accepting = false;
    for (size_t i = 0; i < acceptors.size(); ++i) {
      // One that never ran has nothing to stop.
      accepting = accepting || (acceptor_threads[i]->running() && !acceptors[i]->stopped());
    }
    if (!accepting && OpenConnections() == 0) return true;
    if (waited_ms >= deadline_ms) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
  }
}

void SocketServer::State::Stop() {
  if (std::exchange(stopped, true)) return;
  if (options.metrics != nullptr) {
    options.metrics->RemoveCallbackGauges(&channel);
    options.metrics->RemoveCallbackGauges(&memory);
  }
  if (!started) return;
  StopAccepting();
  for (const auto& processor : processors) processor->CloseAll();
  const bool running = std::all_of(processor_threads.begin(), processor_threads.end(),
                                   [](const auto& thread) { return thread->running(); });
  if (running && !AwaitNoConnections(kStopWaitMs)) {
    LOG(WARNING) << OpenConnections() << " connections did not close in time and are dropped";
  }
  for (const auto& thread : acceptor_threads) thread->RequestStop();
  for (const auto& thread : acceptor_threads) thread->Join();
  handlers->Stop();
  for (const auto& thread : processor_threads) thread->RequestStop();
  for (const auto& thread : processor_threads) thread->Join();
}

SocketServer::SocketServer(SocketServerOptions options, RequestHandler& handler)
    : state_(std::make_unique<State>(std::move(options), handler)) {}

SocketServer::~SocketServer() { Stop(); }

absl::Status SocketServer::Start() {
  const uint64_t limit = state_->descriptor_limit;
  absl::Status status = state_->Open();
  if (status.ok()) status = state_->StartThreads();
  if (!status.ok()) {
    state_->Stop();
    return status;
  }
  state_->RegisterGauges();
  // One for each connection, two for each pipe, and what the process has beside.
  const int64_t needed =
      int64_t{state_->options.max_connections} +
      2LL * state_->options.processor.splice_pipe_count * state_->options.num_network_threads +
      1024;
  if (state_->options.max_connections != INT32_MAX && limit < static_cast<uint64_t>(needed)) {
    LOG(WARNING) << "the limit of file descriptors is " << limit
                 << "; max_connections=" << state_->options.max_connections << " needs about "
                 << needed << " (ulimit -n, LimitNOFILE=)";
  } else {
    LOG(INFO) << "file descriptors: limit " << limit << ", connections take at most "
              << ConnectionsWithin(limit);
  }
  return absl::OkStatus();
}

const std::vector<Endpoint>& SocketServer::bound_endpoints() const {
  return state_->bound_endpoints;
}

ContinuationLane& SocketServer::continuations() { return state_->channel; }

void SocketServer::BeginDrain() {
  state_->StopAccepting();
  for (const auto& processor : state_->processors) processor->BeginDrain();
}

bool SocketServer::Drain(int64_t deadline_ms) {
  if (!state_->started || state_->stopped) return true;
  BeginDrain();
  return state_->AwaitNoConnections(deadline_ms);
}

void SocketServer::Stop() { state_->Stop(); }

int64_t SocketServer::connection_count() const { return state_->quotas.total(); }

}  // namespace gyre
