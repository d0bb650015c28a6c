#include "engine/network/request/request_metrics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/metrics/exposition.h"

namespace gyre {

RequestSpans RequestSpans::Of(const RequestTimes& times) {
  const int64_t dequeued_ns = std::max(times.dequeued_ns, times.received_ns);
  const int64_t local_ns = std::max(times.local_complete_ns, dequeued_ns);
  const int64_t ready_ns = std::max(times.response_ready_ns, local_ns);
  const int64_t taken_ns = std::max(times.response_dequeued_ns, ready_ns);
  const int64_t sent_ns = std::max(times.sent_ns, taken_ns);
  return {.request_queue_ns = dequeued_ns - times.received_ns,
          .local_ns = local_ns - dequeued_ns,
          .remote_ns = ready_ns - local_ns,
          .throttle_ns = times.throttle_ns,
          .response_queue_ns = taken_ns - ready_ns,
          .response_send_ns = sent_ns - taken_ns,
          .total_ns = sent_ns - times.received_ns};
}

RequestMetrics::RequestMetrics(MetricRegistry* registry, const std::vector<std::string>& api_names,
                               const std::vector<int16_t>& api_max_versions)
    : names_(api_names) {
  names_.push_back("unknown");
  if (registry == nullptr) return;
  enabled_ = true;
  for (size_t i = 0; i < api_names.size(); ++i) {
    const int max_version = i < api_max_versions.size() ? api_max_versions[i] : -1;
    apis_.push_back(api_names[i].empty() ? PerApi()
                                         : Register(*registry, api_names[i], max_version));
  }
  apis_.push_back(Register(*registry, "unknown", -1));
}

RequestMetrics::PerApi RequestMetrics::Register(MetricRegistry& registry, const std::string& name,
                                                int max_version) {
  const std::string labels = MetricLabel("request", name);
  PerApi api;
  for (int version = 0; version <= max_version; ++version) {
    api.requests_by_version.push_back(registry.AddCounter(
        "kafka_network_requestmetrics_requests_total", "Requests that were answered, or closed on.",
        MetricLabels(labels, MetricLabel("version", absl::StrCat(version)))));
  }
  api.requests_by_version.push_back(
      registry.AddCounter("kafka_network_requestmetrics_requests_total",
                          "Requests that were answered, or closed on.", labels));
  api.request_bytes = registry.AddHistogram("kafka_network_requestmetrics_requestbytes",
                                            "Size of requests.", labels);
  const auto add = [&](absl::string_view kafka_name, absl::string_view phase,
                       absl::string_view help) {
    const Histogram histogram =
        registry.AddHistogram(absl::StrCat("kafka_network_requestmetrics_", kafka_name), help,
                              labels, HistogramFormat::NanosecondsAsMilliseconds());
    registry.AddHistogramView("gyre_request_duration_seconds",
                              "Where requests spend their time; phase=\"total\" is the whole.",
                              MetricLabels(labels, MetricLabel("phase", phase)), histogram,
                              HistogramFormat::NanosecondsAsBuckets());
    return histogram;
  };
  api.request_queue_ns =
      add("requestqueuetimems", "request_queue", "From the whole frame to a handler taking it.");
  api.local_ns = add("localtimems", "local", "In the handler.");
  api.remote_ns = add("remotetimems", "remote", "From the handler's return to the response.");
  api.throttle_ns = add("throttletimems", "throttle", "Throttle time that was assigned.");
  api.response_queue_ns =
      add("responsequeuetimems", "response_queue", "From the response to its processor taking it.");
  api.response_send_ns = add("responsesendtimems", "response_send",
                             "From there to the last byte handed to the kernel.");
  api.total_ns = add("totaltimems", "total", "The whole span.");
  return api;
}

size_t RequestMetrics::IndexOf(int16_t api) const {
  const size_t last = names_.size() - 1;
  return api >= 0 && static_cast<size_t>(api) < last ? static_cast<size_t>(api) : last;
}

absl::string_view RequestMetrics::NameOf(int16_t api) const {
  const std::string& name = names_[IndexOf(api)];
  return name.empty() ? absl::string_view(names_.back()) : absl::string_view(name);
}

void RequestMetrics::Record(int16_t api, int16_t version, const RequestSpans& spans,
                            int64_t request_bytes) {
  if (!enabled_) return;
  PerApi& metrics = apis_[IndexOf(api)];
  if (!metrics.requests_by_version.empty()) {
    const size_t other = metrics.requests_by_version.size() - 1;
    metrics
        .requests_by_version[version >= 0 ? std::min(static_cast<size_t>(version), other) : other]
        .Increment();
  }
  metrics.request_bytes.Record(request_bytes);
  metrics.request_queue_ns.Record(spans.request_queue_ns);
  metrics.local_ns.Record(spans.local_ns);
  metrics.remote_ns.Record(spans.remote_ns);
  metrics.throttle_ns.Record(spans.throttle_ns);
  metrics.response_queue_ns.Record(spans.response_queue_ns);
  metrics.response_send_ns.Record(spans.response_send_ns);
  metrics.total_ns.Record(spans.total_ns);
}

}  // namespace gyre
