#include "engine/broker/broker_metrics.h"

#include "absl/strings/str_cat.h"
#include "engine/metrics/exposition.h"

namespace gyre {

void BrokerMetrics::Register(MetricRegistry& registry) {
  errors.Register(registry);
  const auto add = [&registry](absl::string_view name, absl::string_view help) {
    return registry.AddCounter(absl::StrCat("kafka_server_brokertopicmetrics_", name, "_total"),
                               help);
  };
  topics.messages_in = add("messagesin", "Records that were appended, of all topics.");
  topics.bytes_in = add("bytesin", "Bytes of batches that were appended, of all topics.");
  topics.bytes_out = add("bytesout", "Bytes of records in answers to Fetch, of all topics.");
  topics.bytes_rejected =
      add("bytesrejected", "Bytes of batches that were larger than max.message.bytes.");
  topics.produce_requests =
      add("totalproducerequests", "Partitions of Produce requests, each as one request.");
  topics.failed_produce_requests =
      add("failedproducerequests", "Of these, those that were not appended, whatever the error.");
  topics.fetch_requests =
      add("totalfetchrequests", "Partitions of Fetch requests, each as one request.");
  topics.failed_fetch_requests =
      add("failedfetchrequests", "Of these, those that were answered with an error.");
}

void ErrorMetrics::Register(MetricRegistry& registry) {
  registry_ = &registry;
  series_ = std::make_unique<Series[]>(size_t{kApiKeyCount} * kCodes);
}

void ErrorMetrics::Count(ApiKey api, ErrorCode code) {
  if (registry_ == nullptr) return;
  const int value = static_cast<int>(code);
  const bool listed = value >= kFirstCode && value <= kLastCode;
  const size_t index = listed ? static_cast<size_t>(value - kFirstCode) : kCodes - 1;
  Series& series = series_[static_cast<size_t>(api) * kCodes + index];
  if (!series.made.load(std::memory_order_acquire)) [[unlikely]]
    Make(api, code, series);
  series.counter.Increment();
}

void ErrorMetrics::Make(ApiKey api, ErrorCode code, Series& series) {
  MutexLock lock(mutex_);
  if (series.made.load(std::memory_order_relaxed)) return;
  series.counter = registry_->AddCounter(
      "kafka_network_requestmetrics_errors_total",
      "Error codes of answers, NONE among them; one for each partition or topic of an answer.",
      MetricLabels(MetricLabel("request", ApiKeyName(api)),
                   MetricLabel("error", ErrorCodeName(code))));
  series.made.store(true, std::memory_order_release);
}

}  // namespace gyre
