#include "engine/network/socket_server.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/poll_until.h"
#include "engine/memory/large_ranges.h"
#include "engine/memory/slab_pool.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/connection/ip_limits.h"
#include "engine/network/listener_handlers.h"
#include "engine/network/listener_overrides.h"
#include "engine/network/listener_runtime.h"
#include "engine/network/listener_threads.h"
#include "engine/network/memory_collector.h"
#include "engine/network/memory_plan.h"
#include "engine/network/network_collector.h"
#include "engine/network/network_health.h"
#include "engine/network/network_metrics.h"
#include "engine/network/network_plane.h"
#include "engine/network/request/request_metrics.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Ranges cost address space only until their bytes arrive; what bounds memory is
// queued_max_request_bytes.
constexpr int64_t kLargeRangesBytes = int64_t{1} << 44;
// Stop waits this long for operations to be retired and handlers to answer.
constexpr int64_t kStopWaitMs = 5'000;

// A plan that does not work out is reported by Open.
MemoryPlan PlanOrNone(const SocketServerOptions& options) {
  return PlanMemory(options).value_or(MemoryPlan{.request_bytes = MemoryPool::kUnbounded,
                                                 .privileged_request_bytes = MemoryPool::kUnbounded,
                                                 .response_bytes = ResponseBudget::kUnbounded});
}

// Of options that do not pass nothing is made: Open says what is wrong with them.
SocketServerOptions IfGood(const absl::Status& checked, SocketServerOptions options) {
  return checked.ok() ? std::move(options) : SocketServerOptions();
}

SocketServerOptions WithBudget(SocketServerOptions options) {
  if (options.memory_limit_bytes <= 0) return options;
  const MemoryPlan plan = PlanOrNone(options);
  options.processor.connection.response_budget_bytes = plan.response_bytes;
  options.processor.connection.zero_copy_max_pinned_bytes = plan.pinned_bytes;
  options.processor.response_budget_processors = ProcessorCount(options);
  return options;
}

// As in Kafka, an only listener is not protected, whoever uses it.
bool IsProtected(const SocketServerOptions& options, const ListenerOptions& listener) {
  return (listener.privileged || listener.inter_broker) && options.listeners.size() > 1;
}

// What `connection` asks for, within the limits of a server started with `options`: what
// zero copy may pin comes out of the answers' part.
ConnectionOptions WithinLimits(SocketServerOptions options, ConnectionOptions connection) {
  options.processor.connection.zero_copy_max_pinned_bytes = connection.zero_copy_max_pinned_bytes;
  const ConnectionOptions planned = WithBudget(std::move(options)).processor.connection;
  connection.zero_copy_max_pinned_bytes = planned.zero_copy_max_pinned_bytes;
  connection.response_budget_bytes = planned.response_budget_bytes;
  return connection;
}

ConnectionQuotaOptions QuotaOptionsOf(const SocketServerOptions& options,
                                      int32_t descriptor_maximum) {
  ConnectionQuotaOptions quotas;
  quotas.max_connections = options.max_connections;
  quotas.max_connection_creation_rate = options.max_connection_creation_rate;
  quotas.max_connection_creation_rate_per_ip = options.max_connection_creation_rate_per_ip;
  quotas.creation_burst_seconds =
      (options.quota_window_num - 1) * options.quota_window_size_seconds;
  quotas.descriptor_maximum = descriptor_maximum;
  quotas.listeners.clear();
  for (const ListenerOptions& listener : options.listeners) {
    quotas.listeners.push_back(
        ListenerQuota{.name = listener.endpoint.listener_name,
                      .is_protected = IsProtected(options, listener),
                      .max_connections = listener.max_connections,
                      .max_connection_creation_rate = listener.max_connection_creation_rate,
                      .sheds_when_full = listener.when_full == ListenerOptions::WhenFull::kShed});
  }
  return quotas;
}

// What is opened beside connections: a ring for each thread; for each listener a socket for
// each who accepts and its duplicate, and what a burst makes it accept before it notices
// that there is no room; log files. (Pipes do without when there is none left.)
uint64_t DescriptorsBeside(const SocketServerOptions& options) {
  constexpr uint64_t kLogFiles = 16;
  constexpr uint64_t kBurst = 16;
  const uint64_t processors = static_cast<uint64_t>(ProcessorCount(options));
  const uint64_t listeners = options.listeners.size();
  const uint64_t listening =
      options.accept_mode == AcceptMode::kReusePort ? 2 * processors : 3 * listeners;
  return processors + listening + kBurst * listeners + kLogFiles;
}

}  // namespace

struct SocketServer::State final : private ConnectionQuotas::ExcessListener,
                                   private SlabAllocator::RefusalListener {
  State(SocketServerOptions server_options, RequestHandler& request_handler)
      : options_checked(CheckOptions(server_options)),
        options(WithBudget(IfGood(options_checked, std::move(server_options)))),
        clock(options.clock != nullptr ? *options.clock : Clock::Real()),
        frame_decoder(options.processor.connection.socket_request_max_bytes),
        connection_options(options.processor.connection),
        max_frame_bytes(LargestRequest(options)),
        large_ranges(LargeRangesConfig{.capacity_bytes = kLargeRangesBytes}),
        descriptor_limit(RaiseDescriptorLimit()),
        connections_within(ConnectionsWithin(descriptor_limit,
                                             OpenDescriptorCount() + DescriptorsBeside(options))),
        quotas(QuotaOptionsOf(options, connections_within)),
        metrics(options.metrics),
        request_metrics(options.metrics, options.api_names, options.api_max_versions),
        handlers(options.listeners, request_handler),
        data_plane(NetworkPlaneOptions{.name = options.thread_name_prefix,
                                       .num_io_threads = options.num_io_threads,
                                       .queued_max_requests = options.queued_max_requests,
                                       .lanes = options.lanes,
                                       .request_budget_bytes = PlanOrNone(options).request_bytes,
                                       .largest_request_bytes = LargestRequest(options)},
                   clock),
        listener_threads(options, listeners) {}

  absl::Status Open();
  absl::Status SetAddressLimits();
  absl::Status OpenListener(const ListenerOptions& listener_options);
  // Whether a request that large can come in everywhere.
  absl::Status CheckRequestFits(int64_t request_max_bytes);
  absl::Status StartProcessors();
  absl::Status StartThreads();
  void RegisterGauges();
  void StopAccepting();
  // Whether the caller is on one of the server's own threads, as handlers are.
  bool RunsHere() const;
  int64_t OpenConnections() const;
  bool AwaitNoConnections(int64_t deadline_ms) const;
  void Stop();
  // ConnectionQuotas::ExcessListener.
  void OnExcessConnections() override;
  // SlabAllocator::RefusalListener.
  void OnAnswerRefused() override;
  const absl::Status options_checked;
  const SocketServerOptions options;
  const Clock& clock;
  Int32LengthPrefixed frame_decoder;
  ConnectionOptions connection_options;  // as they are now
  std::atomic<int64_t> max_frame_bytes;  // likewise

  // In the order in which they must outlive each other.
  LargeRanges large_ranges;
  std::unique_ptr<SlabPool> slab;
  SlabAllocator response_buffers;
  const uint64_t descriptor_limit;
  const int32_t connections_within;  // that limit
  ConnectionQuotas quotas;
  NetworkMetrics metrics;
  RequestMetrics request_metrics;
  ListenerHandlers handlers;
  NetworkPlane data_plane;
  std::vector<std::unique_ptr<NetworkPlane>> privileged_planes;  // [i]: of listener i, or null
  std::vector<ListenSocket> adopted;
  RingFactory make_ring;
  std::atomic<int> next_processor_index{0};
  std::vector<std::unique_ptr<ListenerRuntime>> listeners;
  ListenerThreads listener_threads;
  std::vector<Endpoint> bound_endpoints;
  std::unique_ptr<NetworkCollector> collector;
  std::unique_ptr<MemoryCollector> memory_collector;
  bool opened = false;
  bool started = false;  // its processors
  bool serving = false;  // all of it
  std::atomic<bool> draining{false};
  std::atomic<bool> stopped{false};
};

absl::Status SocketServer::State::Open() {
  if (stopped) return absl::FailedPreconditionError("a server that was stopped starts no more");
  if (std::exchange(opened, true)) return absl::OkStatus();
  GYRE_RETURN_IF_ERROR(options_checked);
  make_ring = options.ring_factory;
  if (make_ring == nullptr) {
    GYRE_ASSIGN_OR_RETURN(uring::Features features, uring::ProbeFeatures(uring::FeatureSet()));
    make_ring = [features](absl::string_view) {
      return uring::CreateUringRing(features, uring::RingOptions());
    };
  }
  GYRE_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(options));
  GYRE_ASSIGN_OR_RETURN(
      slab, SlabPool::Create(SlabPoolConfig::Evenly(plan.slab_bytes, plan.ring_bytes)), "memory");
  response_buffers.SetSlab(slab.get());
  response_buffers.SetHeapLimit(connection_options.response_budget_bytes);
  GYRE_RETURN_IF_ERROR(SetAddressLimits());
  for (const ListenerOptions& listener_options : options.listeners) {
    GYRE_RETURN_IF_ERROR(OpenListener(listener_options));
  }
  for (const ListenSocket& socket : adopted) {
    if (socket.fd.valid()) {
      LOG(WARNING) << "no listener is configured for the socket of " << socket.bound.ToString()
                   << ", which was taken over: it is closed";
    }
  }
  adopted.clear();
  // Their number does not change from here on.
  quotas.SetExcessListener(this);
  response_buffers.SetRefusalListener(this);
  // Registering can be refused, and matters then. Else it waits for Start: a process that
  // is taken over still has its share of the memlock limit.
  return options.require_registered_buffers ? StartProcessors() : absl::OkStatus();
}

absl::Status SocketServer::State::SetAddressLimits() {
  GYRE_ASSIGN_OR_RETURN(IpLimits overrides, ParseIpCounts(options.max_connections_per_ip_overrides),
                        "max_connections_per_ip_overrides");
  GYRE_RETURN_IF_ERROR(quotas.SetMaxConnectionsPerIpOverrides(std::move(overrides)));
  GYRE_RETURN_IF_ERROR(quotas.SetMaxConnectionsPerIp(options.max_connections_per_ip));
  constexpr char kRates[] = "max_connection_creation_rate_per_ip_overrides";
  GYRE_ASSIGN_OR_RETURN(
      IpLimits rates, ParseIpRates(options.max_connection_creation_rate_per_ip_overrides), kRates);
  return Annotate(quotas.SetMaxConnectionCreationRatePerIpOverrides(std::move(rates)), kRates);
}

absl::Status SocketServer::State::OpenListener(const ListenerOptions& listener_options) {
  const int index = static_cast<int>(listeners.size());
  NetworkPlane* plane = &data_plane;
  if (listener_options.privileged) {
    privileged_planes.push_back(std::make_unique<NetworkPlane>(
        NetworkPlaneOptions{
            .name = absl::AsciiStrToLower(listener_options.endpoint.listener_name) + "-",
            .num_io_threads = listener_options.privileged_io_threads,
            .queued_max_requests = listener_options.privileged_queued_max_requests,
            .request_budget_bytes = PlanOrNone(options).privileged_request_bytes,
            .largest_request_bytes = LargestRequest(options)},
        clock));
    plane = privileged_planes.back().get();
  } else {
    privileged_planes.push_back(nullptr);
  }
  listeners.push_back(std::make_unique<ListenerRuntime>(
      index, listener_options, frame_decoder, *plane, handlers.Of(index),
      ListenerRuntime::Shared{options, connection_options, max_frame_bytes, make_ring, clock,
                              quotas, *slab, large_ranges, metrics, request_metrics,
                              next_processor_index, adopted}));
  GYRE_RETURN_IF_ERROR(listeners.back()->Open());
  bound_endpoints.push_back(listeners.back()->listener().bound);
  return absl::OkStatus();
}

absl::Status SocketServer::State::StartProcessors() {
  if (std::exchange(started, true)) return absl::OkStatus();
  absl::Status registered;
  for (const auto& listener : listeners) {
    GYRE_RETURN_IF_ERROR(listener->StartProcessors(&registered));
  }
  if (!registered.ok()) {
    if (options.require_registered_buffers) {
      return Annotate(registered, "require_registered_buffers");
    }
    LOG(INFO) << "going on without registered buffers: " << registered.message();
  }
  return absl::OkStatus();
}

absl::Status SocketServer::State::StartThreads() {
  GYRE_RETURN_IF_ERROR(StartProcessors());
  GYRE_RETURN_IF_ERROR(data_plane.Start(handlers.ForDataPlane()));
  for (size_t i = 0; i < listeners.size(); ++i) {
    if (NetworkPlane* plane = privileged_planes[i].get()) {
      GYRE_RETURN_IF_ERROR(plane->Start(handlers.Of(i)));
    }
  }
  for (const auto& listener : listeners) GYRE_RETURN_IF_ERROR(listener->StartAccepting());
  return absl::OkStatus();
}

void SocketServer::State::RegisterGauges() {
  if (options.metrics == nullptr) return;
  std::vector<NetworkPlane*> control_planes;
  for (const auto& plane : privileged_planes) {
    if (plane != nullptr) control_planes.push_back(plane.get());
  }
  collector = std::make_unique<NetworkCollector>(clock, metrics.threads, quotas, data_plane,
                                                 std::move(control_planes));
  options.metrics->AddCollector(collector.get());
  memory_collector = std::make_unique<MemoryCollector>(*slab, large_ranges);
  options.metrics->AddCollector(memory_collector.get());
}

void SocketServer::State::StopAccepting() {
  for (const auto& listener : listeners) listener->StopAccepting();
}

int64_t SocketServer::State::OpenConnections() const {
  int64_t count = 0;
  for (const auto& listener : listeners) count += listener->open_connections();
  return count;
}

bool SocketServer::State::AwaitNoConnections(int64_t deadline_ms) const {
  const auto none = [this] {
    const bool accepting = std::any_of(listeners.begin(), listeners.end(),
                                       [](const auto& listener) { return listener->accepting(); });
    return !accepting && OpenConnections() == 0;
  };
  return PollUntil(none, deadline_ms);
}

void SocketServer::State::OnExcessConnections() {
  for (size_t i = 0; i < listeners.size(); ++i) {
    const ListenerOptions& listener = options.listeners[i];
    const bool may_have_to =
        !IsProtected(options, listener) || listener.when_full == ListenerOptions::WhenFull::kShed;
    if (may_have_to) listeners[i]->processors().set().Shed();
  }
}

void SocketServer::State::OnAnswerRefused() {
  for (const auto& listener : listeners) listener->processors().set().CheckForStalls();
}

void SocketServer::State::Stop() {
  if (stopped.exchange(true)) return;
  if (collector != nullptr) {
    options.metrics->RemoveCollector(collector.get());
    options.metrics->RemoveCollector(memory_collector.get());
  }
  if (!started) return;
  StopAccepting();
  for (const auto& listener : listeners) listener->CloseAll();
  const bool running = std::all_of(listeners.begin(), listeners.end(), [](const auto& listener) {
    return listener->processors_running();
  });
  if (running && !AwaitNoConnections(kStopWaitMs)) {
    LOG(WARNING) << OpenConnections() << " connections did not close in time and are dropped";
  }
  for (const auto& listener : listeners) listener->JoinAcceptor();
  data_plane.Stop();
  for (const auto& plane : privileged_planes) {
    if (plane != nullptr) plane->Stop();
  }
  for (const auto& listener : listeners) listener->JoinProcessors();
}

bool SocketServer::State::RunsHere() const {
  const auto runs_here = [](const NetworkPlane& plane) {
    return plane.handlers() != nullptr && plane.handlers()->runs_here();
  };
  return runs_here(data_plane) ||
         std::any_of(privileged_planes.begin(), privileged_planes.end(),
                     [&](const auto& plane) { return plane != nullptr && runs_here(*plane); }) ||
         std::any_of(listeners.begin(), listeners.end(),
                     [](const auto& listener) { return listener->processors().runs_here(); });
}

SocketServer::SocketServer(SocketServerOptions options, RequestHandler& handler)
    : state_(std::make_unique<State>(std::move(options), handler)) {}

SocketServer::~SocketServer() {
  CHECK(!state_->RunsHere()) << "a server is not destroyed by its own handler";
  state_->Stop();
}

absl::Status SocketServer::Open() {
  absl::Status status = state_->Open();
  if (!status.ok()) state_->Stop();
  return status;
}

absl::Status SocketServer::Start() {
  if (state_->serving && !state_->stopped) {
    return absl::FailedPreconditionError("the server was started before");
  }
  const uint64_t limit = state_->descriptor_limit;
  absl::Status status = Open();
  if (status.ok() && state_->draining) {
    status = absl::FailedPreconditionError("the server was told to drain before it was started");
  }
  if (status.ok()) status = state_->StartThreads();
  if (!status.ok()) {
    state_->Stop();
    return status;
  }
  state_->serving = true;
  state_->RegisterGauges();
  // One for each connection, two for each pipe, and what the process has beside.
  const int64_t needed =
      int64_t{state_->options.max_connections} +
      2 * state_->options.processor.splice_pipe_count * ProcessorCount(state_->options) + 1024;
  if (state_->options.max_connections != INT32_MAX && limit < static_cast<uint64_t>(needed)) {
    LOG(WARNING) << "the limit of file descriptors is " << limit << "; "
                 << state_->options.listeners[0].max_connections_name << "="
                 << state_->options.max_connections << " needs about " << needed
                 << " (ulimit -n, LimitNOFILE=)";
  } else {
    LOG(INFO) << "file descriptors: limit " << limit << ", connections take at most "
              << state_->connections_within;
  }
  return absl::OkStatus();
}

void SocketServer::AdoptListenSockets(std::vector<ListenSocket> sockets) {
  state_->adopted = std::move(sockets);
}

absl::StatusOr<std::vector<ListenSocket>> SocketServer::DuplicateListenSockets() {
  std::vector<ListenSocket> sockets;
  for (const auto& listener : state_->listeners) {
    GYRE_RETURN_IF_ERROR(listener->DuplicateSockets(&sockets));
  }
  return sockets;
}

const std::vector<Endpoint>& SocketServer::bound_endpoints() const {
  return state_->bound_endpoints;
}

ContinuationLane& SocketServer::continuations() { return state_->data_plane.channel(); }

BufferAllocator& SocketServer::response_buffers() { return state_->response_buffers; }

void SocketServer::BeginDrain() {
  state_->draining = true;
  state_->StopAccepting();
  for (const auto& listener : state_->listeners) listener->BeginDrain();
  if (RequestHandlerPool* handlers = state_->data_plane.handlers()) handlers->RefuseChanges();
}

bool SocketServer::Drain(int64_t deadline_ms) {
  if (!state_->started || state_->stopped) return true;
  BeginDrain();
  DCHECK(!state_->RunsHere()) << "Drain was called by a handler";
  if (state_->RunsHere()) {
    LOG(ERROR) << "Drain was called by a handler, which it would wait for: it does not wait";
    return false;
  }
  return state_->AwaitNoConnections(deadline_ms);
}

absl::Status SocketServer::ResizeNetworkThreads(int32_t count) {
  if (!state_->started) return absl::FailedPreconditionError("the server was not started");
  return state_->listener_threads.SetServersNumber(count);
}

absl::Status SocketServer::ResizeHandlerThreads(int32_t count) {
  if (!state_->started) return absl::FailedPreconditionError("the server was not started");
  return state_->data_plane.handlers()->Resize(count);
}

int32_t SocketServer::network_threads() const {
  int32_t count = 0;
  for (const auto& listener : state_->listeners) count += listener->processors().size();
  return count;
}

int32_t SocketServer::network_threads(absl::string_view listener_name) const {
  for (const auto& listener : state_->listeners) {
    if (listener->listener().bound.listener_name == listener_name) {
      return listener->processors().size();
    }
  }
  return 0;
}

int32_t SocketServer::handler_threads() const { return state_->data_plane.handlers()->size(); }

void SocketServer::Stop() {
  if (state_->stopped) return;
  DCHECK(!state_->RunsHere()) << "Stop was called by a handler";
  if (state_->RunsHere()) {
    LOG(ERROR) << "Stop was called by a handler, which it would wait for: it does nothing";
    return;
  }
  state_->Stop();
}

absl::Status SocketServer::Health() const {
  const State& state = *state_;
  GYRE_RETURN_IF_ERROR(CheckProcessorsGetOn(state.metrics.threads, state.options.thread_name_prefix,
                                            kStuckTurnMs, state.clock));
  GYRE_RETURN_IF_ERROR(
      CheckHandlersGetOn(state.data_plane, state.options.api_names, kStuckTurnMs, state.clock));
  for (const auto& plane : state.privileged_planes) {
    if (plane == nullptr) continue;
    GYRE_RETURN_IF_ERROR(
        CheckHandlersGetOn(*plane, state.options.api_names, kStuckTurnMs, state.clock));
  }
  return absl::OkStatus();
}

ConnectionQuotas& SocketServer::connection_quotas() { return state_->quotas; }

int64_t SocketServer::connection_count() const { return state_->quotas.total(); }

const ConnectionOptions& SocketServer::connection_options() const {
  return state_->connection_options;
}

absl::Status SocketServer::State::CheckRequestFits(int64_t request_max_bytes) {
  int64_t most_bytes = data_plane.memory().partial_capacity_bytes();
  for (const auto& plane : privileged_planes) {
    if (plane == nullptr) continue;
    most_bytes = std::min(most_bytes, plane->memory().partial_capacity_bytes());
  }
  most_bytes -= kLengthBytes;
  if (request_max_bytes <= most_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "socket_request_max_bytes=", request_max_bytes,
      " is out of range; what queued_max_request_bytes and memory_limit_bytes leave for a request "
      "is ",
      most_bytes));
}

absl::Status SocketServer::SetConnectionOptions(const ConnectionOptions& options) {
  State& state = *state_;
  GYRE_RETURN_IF_ERROR(CheckLiveOptions(state.options, options));
  GYRE_RETURN_IF_ERROR(state.CheckRequestFits(options.socket_request_max_bytes));
  state.connection_options = WithinLimits(state.options, options);
  state.response_buffers.SetHeapLimit(state.connection_options.response_budget_bytes);
  state.frame_decoder.set_max_payload_bytes(options.socket_request_max_bytes);
  state.max_frame_bytes.store(options.socket_request_max_bytes + kLengthBytes,
                              std::memory_order_relaxed);
  for (const auto& listener : state.listeners) {
    listener->SetConnectionOptions(state.connection_options);
  }
  return absl::OkStatus();
}

absl::Status SocketServer::SetLaneWeights(const std::vector<RequestLaneOptions>& lanes) {
  RequestChannel& channel = state_->data_plane.channel();
  const auto find = [&channel](const RequestLaneOptions& wanted) {
    int lane = 0;
    while (lane < channel.lane_count() && channel.lane_name(lane) != wanted.name) ++lane;
    return lane;
  };
  for (const RequestLaneOptions& lane : lanes) {
    if (find(lane) == channel.lane_count()) {
      return absl::NotFoundError(absl::StrCat("there is no lane ", lane.name));
    }
    if (lane.weight < 1 || lane.weight > kMaxLaneWeight) {
      return absl::InvalidArgumentError(absl::StrCat("the weight ", lane.weight, " of lane ",
                                                     lane.name, " is not within 1..",
                                                     kMaxLaneWeight));
    }
  }
  for (const RequestLaneOptions& lane : lanes) channel.SetLaneWeight(find(lane), lane.weight);
  return absl::OkStatus();
}

absl::Status SocketServer::SetListenerOverrides(absl::string_view text) {
  if (!state_->started) return absl::FailedPreconditionError("the server was not started");
  std::vector<ListenerOptions> listeners = state_->options.listeners;
  for (ListenerOptions& listener : listeners) {
    listener.num_network_threads.reset();
    listener.max_connections.reset();
    listener.max_connection_creation_rate.reset();
  }
  GYRE_ASSIGN_OR_RETURN(const std::vector<ListenerOverrides> overrides,
                        ParseListenerOverrides(text));
  GYRE_RETURN_IF_ERROR(ApplyListenerOverrides(overrides, &listeners));
  GYRE_RETURN_IF_ERROR(state_->listener_threads.SetOwnNumbers(listeners));
  for (const ListenerOptions& listener : listeners) {
    const std::string& name = listener.endpoint.listener_name;
    GYRE_RETURN_IF_ERROR(state_->quotas.SetListenerMaxConnections(name, listener.max_connections));
    GYRE_RETURN_IF_ERROR(state_->quotas.SetListenerMaxConnectionCreationRate(
        name, listener.max_connection_creation_rate));
  }
  return absl::OkStatus();
}

std::vector<ConnectionInfo> SocketServer::ListConnections(size_t max_count, int64_t timeout_ms) {
  State& state = *state_;
  if (!state.started || state.stopped) return {};
  // One for this thread, until every processor was asked.
  const auto list = std::make_shared<ConnectionList>(max_count, 1);
  for (const auto& listener : state.listeners) listener->AddTo(list);
  list->OnProcessorDone();
  return list->Await(timeout_ms);
}

}  // namespace gyre
