#include "engine/network/socket_server_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/poll_until.h"
#include "engine/network/connection/ip_limits.h"
#include "engine/network/memory_plan.h"
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

SocketServer::State::State(SocketServerOptions server_options, RequestHandler& request_handler)
    : options_checked(CheckOptions(server_options)),
      options(WithBudget(IfGood(options_checked, std::move(server_options)))),
      clock(options.clock != nullptr ? *options.clock : Clock::Real()),
      frame_decoder(options.processor.connection.socket_request_max_bytes),
      connection_options(options.processor.connection),
      max_frame_bytes(LargestRequest(options)),
      large_ranges(LargeRangesConfig{.capacity_bytes = kLargeRangesBytes}),
      descriptor_limit(RaiseDescriptorLimit()),
      connections_within(
          ConnectionsWithin(descriptor_limit, OpenDescriptorCount() + DescriptorsBeside(options))),
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

void SocketServer::State::TellDescriptors() const {
  // One for each connection, two for each pipe, and what the process has beside.
  const int64_t needed = int64_t{options.max_connections} +
                         2 * options.processor.splice_pipe_count * ProcessorCount(options) + 1024;
  if (options.max_connections != INT32_MAX && descriptor_limit < static_cast<uint64_t>(needed)) {
    LOG(WARNING) << "the limit of file descriptors is " << descriptor_limit << "; "
                 << options.listeners[0].max_connections_name << "=" << options.max_connections
                 << " needs about " << needed << " (ulimit -n, LimitNOFILE=)";
  } else {
    LOG(INFO) << "file descriptors: limit " << descriptor_limit << ", connections take at most "
              << connections_within;
  }
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

int64_t SocketServer::State::HeldByHandlers() const {
  int64_t count = 0;
  for (const auto& listener : listeners) count += listener->processors().HeldByHandlers();
  return count;
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

ConnectionOptions SocketServer::State::WithinLimits(ConnectionOptions connection) const {
  SocketServerOptions wanted = options;
  wanted.processor.connection.zero_copy_max_pinned_bytes = connection.zero_copy_max_pinned_bytes;
  const ConnectionOptions planned = WithBudget(std::move(wanted)).processor.connection;
  connection.zero_copy_max_pinned_bytes = planned.zero_copy_max_pinned_bytes;
  connection.response_budget_bytes = planned.response_budget_bytes;
  return connection;
}

}  // namespace gyre
