#include "engine/network/network_collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/network/network_health.h"
#include "engine/uring/ring_metrics.h"

namespace gyre {
namespace {

constexpr char kResponseQueueHelp[] =
    "Responses (and ends of throttling) that wait for their processor; without a label: for all.";

// "127.0.0.1", "::1".
std::string HostOf(const AddressKey& address) {
  const std::string with_port = PeerAddress{address, 0}.ToString();
  absl::string_view host = absl::StripSuffix(with_port, ":0");
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

}  // namespace

NetworkCollector::NetworkCollector(const Clock& clock, const NetworkThreads& threads,
                                   const ConnectionQuotas& quotas, NetworkPlane& data_plane,
                                   std::vector<NetworkPlane*> control_planes)
    : clock_(clock),
      threads_(threads),
      quotas_(quotas),
      data_plane_(data_plane),
      control_planes_(std::move(control_planes)),
      made_ns_(clock.NowNs()) {}

double NetworkCollector::Share(const std::string& name, int64_t now_ns, int64_t total_ns,
                               int64_t started_ns, int parallel) {
  Window& window = windows_[name];
  window.seen_ns = now_ns;
  return window.share.Update(now_ns, total_ns, parallel, std::max(made_ns_, started_ns));
}

void NetworkCollector::Collect(MetricSink& sink) {
  const int64_t now_ns = clock_.NowNs();
  idle_ = Mean();
  blocked_.clear();
  responses_queued_ = 0;
  threads_.ForEach([&](const NetworkThread& thread) {
    switch (thread.kind) {
      case NetworkThread::Kind::kProcessor:
        CollectProcessor(thread, now_ns, sink);
        break;
      case NetworkThread::Kind::kAcceptor:
        uring::CollectRingStats(thread.ring->stats(), absl::StrCat("acceptor-", thread.listener),
                                sink);
        break;
      case NetworkThread::Kind::kIntake:
        CollectIntake(thread, now_ns);
        break;
    }
  });
  sink.Gauge("kafka_network_socketserver_networkprocessoravgidle_percent",
             "Share of time that processors waited for work, from 0 to 1; the mean.", "",
             idle_.Value(1));
  for (const auto& [listener, blocked] : blocked_) {
    sink.Gauge("kafka_network_acceptor_acceptorblocked_percent",
               "Share of time that a maximum, a rate or missing descriptors kept the listener from "
               "accepting, from 0 to 1.",
               MetricLabel("listener", listener), blocked.Value(0));
  }
  sink.Gauge("kafka_network_requestchannel_responsequeuesize", kResponseQueueHelp, "",
             static_cast<double>(responses_queued_));
  CollectHandlers(now_ns, sink);
  CollectPlanes(sink);
  CollectAddresses(sink);
  std::erase_if(windows_, [&](const auto& entry) { return entry.second.seen_ns != now_ns; });
}

void NetworkCollector::CollectProcessor(const NetworkThread& thread, int64_t now_ns,
                                        MetricSink& sink) {
  const std::string name = absl::StrCat("processor-", thread.index);
  const double idle = Share(name, now_ns, thread.waits.IdleNs(now_ns), thread.started_ns);
  idle_.sum += idle;
  ++idle_.count;
  sink.Gauge("kafka_network_processor_idle_percent",
             "Share of time that the processor waited for work, from 0 to 1.",
             MetricLabel("networkprocessor", absl::StrCat(thread.index)), idle);
  const std::string labels =
      MetricLabels(MetricLabel("listener", thread.listener),
                   MetricLabel("networkprocessor", absl::StrCat(thread.index)));
  // Kafka's name ends like a histogram's count, so it has no type.
  sink.Add(MetricType::kUntyped, "kafka_server_socket_server_metrics_connection_count",
           "Connections that are open.", labels,
           static_cast<double>(thread.open_connections->load(std::memory_order_relaxed)));
  sink.Counter("kafka_server_socket_server_metrics_connection_creation_total",
               "Connections that the processor was given.", labels,
               static_cast<double>(thread.connections_opened.Value()));
  sink.Counter("kafka_server_socket_server_metrics_connection_close_total",
               "Connections that the processor closed.", labels,
               static_cast<double>(thread.connections_closed.Value()));
  sink.Counter("kafka_server_socket_server_metrics_request_total", "Requests received.", labels,
               static_cast<double>(thread.requests.Value()));
  const int64_t queued = thread.responses_queued.Value();
  responses_queued_ += queued;
  sink.Gauge("kafka_network_requestchannel_responsequeuesize", kResponseQueueHelp,
             MetricLabel("processor", absl::StrCat(thread.index)), static_cast<double>(queued));
  uring::CollectRingStats(thread.ring->stats(), name, sink);
}

void NetworkCollector::CollectIntake(const NetworkThread& thread, int64_t now_ns) {
  // Several in reuseport mode, each known by its address.
  const std::string name = absl::StrCat("intake-", absl::Hex(reinterpret_cast<uintptr_t>(&thread)));
  Mean& blocked = blocked_[thread.listener];
  blocked.sum += Share(name, now_ns, thread.blocked_ns(thread.blocked_context, now_ns), 0);
  ++blocked.count;
}

void NetworkCollector::CollectHandlers(int64_t now_ns, MetricSink& sink) {
  int count = 0;
  const int64_t idle_ns = data_plane_.HandlerIdleNs(now_ns, &count);
  sink.Gauge("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
             "Share of time that handlers waited for work, from 0 to 1; the mean.", "",
             Share("handlers", now_ns, idle_ns, made_ns_, count));
  sink.Gauge("gyre_handler_threads", "Handlers of the data plane.", "", count);
  int64_t longest_ms = LongestHandlerTurnMs(data_plane_, clock_);
  for (const NetworkPlane* plane : control_planes_) {
    longest_ms = std::max(longest_ms, LongestHandlerTurnMs(*plane, clock_));
  }
  sink.Gauge("gyre_handler_longest_request_seconds",
             "How long a handler has been in the request that it is at, the longest of all, those "
             "of privileged listeners included; 0 while they wait for work.",
             "", static_cast<double>(longest_ms) / 1000);
}

void NetworkCollector::CollectPlanes(MetricSink& sink) {
  sink.Gauge("kafka_network_requestchannel_requestqueuesize",
             "Runs of requests that wait for a handler.", "",
             static_cast<double>(data_plane_.channel().queued_runs()));
  if (!control_planes_.empty()) {
    double queued = 0;
    for (NetworkPlane* plane : control_planes_) {
      queued += static_cast<double>(plane->channel().queued_runs());
    }
    sink.Gauge("kafka_network_requestchannel_controlplanerequestqueuesize",
               "The same, of privileged listeners.", "", queued);
  }
  const RequestChannel& channel = data_plane_.channel();
  for (int lane = 0; channel.lane_count() > 1 && lane < channel.lane_count(); ++lane) {
    sink.Gauge("gyre_request_lane_queue_size", "Of these, by lane.",
               MetricLabel("lane", channel.lane_name(lane)),
               static_cast<double>(channel.queued_runs(lane)));
    sink.Gauge("gyre_request_lane_weight", "The lane's share of handlers' turns, in requests.",
               MetricLabel("lane", channel.lane_name(lane)), channel.lane_weight(lane));
  }
  const MemoryPool& memory = data_plane_.memory();
  const bool bounded = memory.capacity_bytes() != MemoryPool::kUnbounded;
  sink.Gauge("kafka_network_socketserver_memorypoolused",
             "Bytes of requests read and not yet answered.", "",
             static_cast<double>(memory.used_bytes()));
  if (bounded) {
    sink.Gauge("kafka_network_socketserver_memorypoolavailable",
               "Bytes of requests that may still be read (queued_max_request_bytes).", "",
               static_cast<double>(memory.capacity_bytes() - memory.used_bytes()));
  }
  sink.Gauge("gyre_memory_pool_waiters", "Connections that wait for memory for a request.", "",
             static_cast<double>(memory.waiter_count()));
}

void NetworkCollector::CollectAddresses(MetricSink& sink) {
  for (const ConnectionQuotas::AddressAccepts& busy : quotas_.BusiestAddresses(kAddresses)) {
    sink.Counter("kafka_server_socket_server_metrics_ip_connection_accept_total",
                 "Connections that were let in, of the addresses with the most; since they have "
                 "any, or a rate to be held to.",
                 MetricLabel("ip", HostOf(busy.address)), static_cast<double>(busy.accepted));
  }
}

}  // namespace gyre
