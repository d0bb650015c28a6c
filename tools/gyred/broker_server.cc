#include "tools/gyred/broker_server.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/broker/broker.h"
#include "engine/broker/broker_lanes.h"
#include "engine/broker/served_apis.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/poll_until.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/memory/memory_limit.h"
#include "engine/network/memory_plan.h"
#include "engine/network/socket_server.h"
#include "engine/timer/timer.h"
#include "engine/uring/file_ring.h"
#include "engine/uring/ring_metrics.h"
#include "engine/uring/uring_ring.h"
#include "glog/logging.h"

namespace gyre {

namespace {

constexpr size_t kLogIoMaxInFlight = 256;
constexpr int64_t kDrainSliceMs = 100;
constexpr int16_t kPlaintext = 0;

// Stands in for the broker's handler while the server, whose lane the broker
// needs, is built first.
class LateHandler final : public RequestHandler {
 public:
  void Set(RequestHandler* handler) { handler_ = handler; }
  void Start(RequestPtr request) override { handler_->Start(std::move(request)); }
  bool RunsInline(const Request& request) const override { return handler_->RunsInline(request); }
  int LaneOf(const Request& request) const override { return handler_->LaneOf(request); }
  int16_t ApiOf(const Request& request) const override { return handler_->ApiOf(request); }
  bool RunsAlone(const Request& request) const override { return handler_->RunsAlone(request); }

 private:
  RequestHandler* handler_ = nullptr;
};

// The ring of the log-io thread, and the workers of every ring.
class LogIoCollector final : public MetricCollector {
 public:
  explicit LogIoCollector(const uring::FileRing& ring) : ring_(ring) {}
  void Collect(MetricSink& sink) override {
    uring::CollectRingStats(ring_.ring_stats(), "log-io", sink);
    uring::CollectWorkers(sink);
  }

 private:
  const uring::FileRing& ring_;
};

// Work that comes back every so often: the timer posts it to the lane, a handler
// runs it and starts the timer again.
struct PeriodicWork : Continuation, TimerEntry {
  Timer* timer = nullptr;
  ContinuationLane* lane = nullptr;
  const Clock* clock = nullptr;
  int64_t interval_ms = 0;
  Broker* broker = nullptr;
  void (*work)(Broker& broker) = nullptr;

  void Schedule() { timer->Add(this, clock->NowNs() + interval_ms * 1'000'000); }
};

void StartPeriodicWork(PeriodicWork* work) {
  work->on_expire = [](TimerEntry* entry) {
    PeriodicWork* self = static_cast<PeriodicWork*>(entry);
    self->lane->Post(self);
  };
  work->run = [](Continuation* continuation) {
    PeriodicWork* self = static_cast<PeriodicWork*>(continuation);
    self->work(*self->broker);
    self->Schedule();
  };
  work->Schedule();
}

// What requests are called in metrics and log lines, and their newest versions.
void NameApis(SocketServerOptions& options) {
  options.api_names.resize(kApiKeyCount);
  options.api_max_versions.resize(kApiKeyCount, -1);
  for (const ServedApi& api : kServedApis) {
    options.api_names[static_cast<size_t>(api.key)] = std::string(ApiKeyName(api.key));
    options.api_max_versions[static_cast<size_t>(api.key)] = api.max_version;
  }
}

void SetMemoryLimit(SocketServerOptions* network) {
  if (network->memory_limit_bytes < 0) {
    LOG(INFO) << "memory_limit_bytes: none";
    return;
  }
  std::string source = "as asked for";
  if (network->memory_limit_bytes == 0) {
    SetDefaultMemoryLimit(network);
    const MemoryLimit limit = DefaultMemoryLimit();
    source = network->memory_limit_bytes == limit.bytes ? limit.source : "the least that works";
  }
  LOG(INFO) << "memory_limit_bytes: " << network->memory_limit_bytes << ", " << source;
}

}  // namespace

void SetDefaultMemoryLimit(SocketServerOptions* network) {
  if (network->memory_limit_bytes != 0) return;
  network->memory_limit_bytes = std::max(DefaultMemoryLimit().bytes, LeastMemoryLimit(*network));
}

struct BrokerServer::State {
  BrokerServerOptions options;
  MetricRegistry own_metrics;
  MetricRegistry* metrics = nullptr;
  const Clock& clock = Clock::Real();
  uring::Features features;
  std::unique_ptr<FileSystem> own_file_system;
  LateHandler handler;

  // In the order in which they are made; taken down in the reverse.
  std::unique_ptr<Timer> timer;
  std::unique_ptr<uring::FileRing> file_ring;
  std::unique_ptr<LogIoCollector> log_io_collector;
  std::unique_ptr<SocketServer> server;
  std::unique_ptr<Broker> broker;
  PeriodicWork flush;
  PeriodicWork checkpoint;
  PeriodicWork upkeep;
  std::unique_ptr<ThreadRunner> timer_thread;
  std::unique_ptr<ThreadRunner> log_io_thread;
  std::vector<ListenSocket> adopted;
  std::atomic<int64_t> drain_timeout_ms{0};
  bool prepared = false;
  bool recovered = false;
  bool drained = false;
  bool stopped = false;
};

BrokerServer::BrokerServer(BrokerServerOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  State& state = *state_;
  state.drain_timeout_ms = state.options.drain_timeout_ms;
  state.metrics = state.options.metrics != nullptr ? state.options.metrics : &state.own_metrics;
}

BrokerServer::~BrokerServer() { Abandon(); }

MetricRegistry& BrokerServer::metrics() { return *state_->metrics; }
Broker& BrokerServer::broker() { return *state_->broker; }
SocketServer& BrokerServer::network() { return *state_->server; }

void BrokerServer::SetDrainTimeout(int64_t drain_timeout_ms) {
  state_->drain_timeout_ms.store(drain_timeout_ms, std::memory_order_relaxed);
}

int64_t BrokerServer::drain_timeout_ms() const {
  return state_->drain_timeout_ms.load(std::memory_order_relaxed);
}

absl::Status BrokerServer::Health() {
  GYRE_RETURN_IF_ERROR(state_->server->Health());
  return state_->broker->Health();
}

const std::vector<Endpoint>& BrokerServer::bound_endpoints() const {
  return state_->server->bound_endpoints();
}

absl::Status BrokerServer::StartThreads() {
  State& state = *state_;
  GYRE_ASSIGN_OR_RETURN(state.features, uring::ProbeFeatures(state.options.uring_hidden));
  if (state.options.require_registered_buffers &&
      !state.features.Has(uring::Feature::kRegisteredBuffers)) {
    return absl::FailedPreconditionError(
        "--require_registered_buffers: the kernel refuses registered buffers; raise the memlock "
        "limit (ulimit -l) or leave the flag out");
  }
  if (state.options.file_system == nullptr) {
    state.own_file_system =
        FileSystem::NewReal({.use_cachestat = state.features.Has(uring::Feature::kCachestat)});
    state.options.file_system = state.own_file_system.get();
  }
  state.timer = std::make_unique<Timer>(state.clock);
  state.timer_thread =
      std::make_unique<ThreadRunner>("timer", *state.timer, state.timer->wakeup(), state.clock);
  GYRE_RETURN_IF_ERROR(state.timer_thread->Start());
  GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring,
                        uring::CreateUringRing(state.features, uring::RingOptions()), "log-io");
  state.file_ring = std::make_unique<uring::FileRing>(std::move(ring), kLogIoMaxInFlight);
  state.log_io_collector = std::make_unique<LogIoCollector>(*state.file_ring);
  state.metrics->AddCollector(state.log_io_collector.get());
  state.log_io_thread = std::make_unique<ThreadRunner>(
      "log-io", *state.file_ring, static_cast<ThreadWaiter&>(*state.file_ring), state.clock);
  GYRE_RETURN_IF_ERROR(state.log_io_thread->Start());
  return absl::OkStatus();
}

absl::Status BrokerServer::OpenNetwork() {
  State& state = *state_;
  SocketServerOptions network = state.options.network;
  network.clock = &state.clock;
  network.metrics = state.metrics;
  NameApis(network);
  if (network.lanes.empty()) network.lanes = DefaultLanes();
  network.require_registered_buffers = state.options.require_registered_buffers;
  network.ring_factory = [&state](absl::string_view) {
    return uring::CreateUringRing(state.features, uring::RingOptions());
  };
  SetMemoryLimit(&network);
  state.server = std::make_unique<SocketServer>(std::move(network), state.handler);
  state.server->AdoptListenSockets(std::move(state.adopted));
  return state.server->Open();
}

absl::Status BrokerServer::OpenBroker() {
  State& state = *state_;
  BrokerOptions broker;
  broker.config = state.options.broker;
  broker.log_dir = state.options.log_dir;
  broker.cluster_id = state.options.cluster_id;
  broker.flush_mode = state.options.flush_mode;
  broker.seed = state.options.seed;
  broker.file_system = state.options.file_system;
  broker.file_io = state.file_ring.get();
  broker.clock = &state.clock;
  broker.timer = state.timer.get();
  broker.lane = &state.server->continuations();
  broker.response_allocator = &state.server->response_buffers();
  GYRE_ASSIGN_OR_RETURN(state.broker, Broker::Open(broker));
  state.handler.Set(&state.broker->request_handler());
  state.broker->AddMetrics(*state.metrics);
  return absl::OkStatus();
}

absl::Status BrokerServer::StartNetwork() {
  State& state = *state_;
  GYRE_RETURN_IF_ERROR(state.server->Start());
  for (PeriodicWork* work : {&state.flush, &state.checkpoint, &state.upkeep}) {
    work->timer = state.timer.get();
    work->lane = &state.server->continuations();
    work->clock = &state.clock;
    work->broker = state.broker.get();
  }
  state.checkpoint.interval_ms = state.options.checkpoint_interval_ms;
  state.checkpoint.work = [](Broker& broker) { broker.WriteCheckpoints(); };
  StartPeriodicWork(&state.checkpoint);
  state.upkeep.interval_ms = state.options.upkeep_interval_ms;
  state.upkeep.work = [](Broker& broker) {
    broker.RetryUnmadePartitions();
    broker.CheckDelayedFetches();
  };
  StartPeriodicWork(&state.upkeep);
  if (state.options.flush_mode == FlushMode::kInterval) {
    state.flush.interval_ms = state.options.flush_interval_ms;
    state.flush.work = [](Broker& broker) { broker.RequestFlushAll(); };
    StartPeriodicWork(&state.flush);
  }
  return absl::OkStatus();
}

absl::Status BrokerServer::Register() {
  State& state = *state_;
  std::vector<BrokerEndpointImage> endpoints;
  const std::vector<Endpoint>& bound = state.server->bound_endpoints();
  for (size_t i = 0; i < bound.size(); ++i) {
    const ListenerOptions& listener = state.options.network.listeners[i];
    BrokerEndpointImage& endpoint = endpoints.emplace_back();
    endpoint.name = bound[i].listener_name;
    endpoint.host = listener.advertised_host.empty() ? DefaultAdvertisedHost(bound[i])
                                                     : listener.advertised_host;
    endpoint.port = listener.advertised_port == 0 ? bound[i].port : listener.advertised_port;
    endpoint.security_protocol = kPlaintext;
  }
  return state.broker->Register(std::move(endpoints));
}

void BrokerServer::AdoptListenSockets(std::vector<ListenSocket> sockets) {
  state_->adopted = std::move(sockets);
}

absl::Status BrokerServer::Prepare() {
  if (std::exchange(state_->prepared, true)) return absl::OkStatus();
  absl::Status status = StartThreads();
  if (status.ok()) status = OpenNetwork();
  if (!status.ok()) Abandon();
  return status;
}

absl::Status BrokerServer::Recover() {
  if (std::exchange(state_->recovered, true)) return absl::OkStatus();
  absl::Status status = Prepare();
  if (status.ok()) status = OpenBroker();
  // Before anybody can ask which brokers there are.
  if (status.ok()) status = Register();
  if (!status.ok()) Abandon();
  return status;
}

absl::Status BrokerServer::Start() {
  absl::Status status = Recover();
  if (status.ok()) status = StartNetwork();
  if (!status.ok()) {
    Abandon();
    return status;
  }
  LOG(INFO) << state_->features.Describe();
  LOG(INFO) << "cluster " << state_->broker->config().cluster_id << ", node "
            << state_->broker->config().node_id << ", data in " << state_->options.log_dir
            << ", log_flush=" << FlushModeName(state_->options.flush_mode);
  return absl::OkStatus();
}

void BrokerServer::Drain() {
  State& state = *state_;
  if (std::exchange(state.drained, true)) return;
  state.server->BeginDrain();
  const int64_t timeout_ms = drain_timeout_ms();
  const auto drained = [&state, slice_ms = std::min(timeout_ms, kDrainSliceMs)] {
    // A fetch that waits for data is answered with what there is; one may still
    // have come in since the last look.
    state.broker->CompleteDelayedFetches();
    return state.server->Drain(slice_ms);
  };
  if (timeout_ms <= 0 || !PollUntil(drained, timeout_ms)) {
    LOG(WARNING) << "connections that did not end in time are cut";
  }
}

// From the outside in. What still waits in purgatory was dropped, and the log-io
// thread ends with its last sync, before the logs go.
void BrokerServer::StopThreads() {
  State& state = *state_;
  if (state.server != nullptr) state.server->Stop();
  if (state.timer_thread != nullptr) state.timer_thread->Stop();
  if (state.timer != nullptr) {
    state.timer->Cancel(&state.flush);
    state.timer->Cancel(&state.checkpoint);
    state.timer->Cancel(&state.upkeep);
  }
}

absl::Status BrokerServer::Stop() {
  State& state = *state_;
  if (state.stopped || state.broker == nullptr) return absl::OkStatus();
  Drain();
  StopThreads();
  const absl::Status closed = state.broker->Close();
  Abandon();
  return closed;
}

void BrokerServer::Abandon() {
  State& state = *state_;
  if (std::exchange(state.stopped, true)) return;
  StopThreads();
  if (state.broker != nullptr) state.broker->DropDelayed();
  if (state.log_io_thread != nullptr) state.log_io_thread->Stop();
  // What the log-io thread posted meanwhile.
  if (state.broker != nullptr) state.broker->DropDelayed();
  if (state.log_io_collector != nullptr)
    state.metrics->RemoveCollector(state.log_io_collector.get());
  state.broker.reset();
  state.server.reset();
}

}  // namespace gyre
