#include "engine/network/request_metrics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gyre {

RequestMetrics::RequestMetrics(MetricRegistry* registry,
                               const std::vector<std::string>& api_names) {
  if (registry == nullptr) return;
  enabled_ = true;
  for (const std::string& name : api_names) {
    apis_.push_back(name.empty() ? PerApi() : Register(*registry, name));
  }
  apis_.push_back(Register(*registry, "unknown"));
}

RequestMetrics::PerApi RequestMetrics::Register(MetricRegistry& registry, const std::string& name) {
  const std::string labels = absl::StrCat("request=\"", name, "\"");
  PerApi api;
  api.requests = registry.AddCounter("requests_total", "Requests answered or closed on.", labels);
  api.request_bytes = registry.AddHistogram("request_bytes", "Size of requests.", labels);
  api.request_queue_ns = registry.AddHistogram(
      "request_queue_time_ns", "From the whole frame to a handler taking it.", labels);
  api.local_ns = registry.AddHistogram("request_local_time_ns", "In the handler.", labels);
  api.remote_ns = registry.AddHistogram("request_remote_time_ns",
                                        "From the handler's return to the response.", labels);
  api.throttle_ns = registry.AddHistogram("request_throttle_time_ns", "Throttled.", labels);
  api.response_queue_ns = registry.AddHistogram(
      "response_queue_time_ns", "From the response to its processor taking it.", labels);
  api.response_send_ns = registry.AddHistogram(
      "response_send_time_ns", "From there to the last byte handed to the kernel.", labels);
  api.total_ns = registry.AddHistogram("request_total_time_ns", "The whole span.", labels);
  return api;
}

void RequestMetrics::Record(int16_t api, const RequestTimes& times, int64_t request_bytes) {
  if (!enabled_) return;
  const size_t last = apis_.size() - 1;
  PerApi& metrics = apis_[api >= 0 && static_cast<size_t>(api) < last ? api : last];
  const int64_t dequeued_ns = std::max(times.dequeued_ns, times.received_ns);
  const int64_t local_ns = std::max(times.local_complete_ns, dequeued_ns);
  const int64_t ready_ns = std::max(times.response_ready_ns, local_ns);
  const int64_t taken_ns = std::max(times.response_dequeued_ns, ready_ns);
  const int64_t sent_ns = std::max(times.sent_ns, taken_ns);
  metrics.requests.Increment();
  metrics.request_bytes.Record(request_bytes);
  metrics.request_queue_ns.Record(dequeued_ns - times.received_ns);
  metrics.local_ns.Record(local_ns - dequeued_ns);
  metrics.remote_ns.Record(ready_ns - local_ns);
  metrics.throttle_ns.Record(times.throttle_ns);
  metrics.response_queue_ns.Record(taken_ns - ready_ns);
  metrics.response_send_ns.Record(sent_ns - taken_ns);
  metrics.total_ns.Record(sent_ns - times.received_ns);
}

}  // namespace gyre
