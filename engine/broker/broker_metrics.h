// What a broker counts of the requests it answers: records and bytes in and out, and
// errors by api and code, under the names that Kafka's have in Prometheus' form. All of a
// kind are one sum over the topics: a label for each would let clients decide how much
// memory metrics take.
//
// Threads: any, on the thread's own cells; Register one thread, before the first request.
#ifndef GYRE_ENGINE_BROKER_BROKER_METRICS_H_
#define GYRE_ENGINE_BROKER_BROKER_METRICS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/concurrent/mutex.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/metric_registry.h"
#include "proto/wire/api_key.h"
#include "proto/wire/error_code.h"

namespace gyre {

struct TopicMetrics {
  Counter messages_in;
  Counter bytes_in;
  Counter bytes_out;
  Counter bytes_rejected;
  // Kafka counts a request once for each of its partitions.
  Counter produce_requests;
  Counter failed_produce_requests;
  Counter fetch_requests;
  Counter failed_fetch_requests;
};

// Errors by api and code. A series is there from its first error on, so there are no more
// than there were kinds of errors.
class ErrorMetrics {
 public:
  // Until it is registered nothing is counted.
  void Register(MetricRegistry& registry);
  void Count(ApiKey api, ErrorCode code);

 private:
  static constexpr int kFirstCode = static_cast<int>(ErrorCode::kUnknownServerError);
  static constexpr int kLastCode = static_cast<int>(ErrorCode::kControllerIdNotRegistered);
  // The listed ones have no gaps; one more for what is not listed.
  static constexpr size_t kCodes = kLastCode - kFirstCode + 2;

  struct Series {
    std::atomic<bool> made{false};  // released after `counter` is set
    Counter counter;
  };
  void Make(ApiKey api, ErrorCode code, Series& series);

  MetricRegistry* registry_ = nullptr;
  std::unique_ptr<Series[]> series_;  // [api * kCodes + code]
  Mutex mutex_;                       // over the first errors of a kind
};

struct BrokerMetrics {
  void Register(MetricRegistry& registry);

  TopicMetrics topics;
  ErrorMetrics errors;
};

// Calls `visit` for each error code of a response, by the names that its fields have in
// Kafka's schemas.
template <typename Message, typename Visitor>
void ForEachErrorCode(const Message& message, const Visitor& visit) {
  if constexpr (requires { ErrorCode(message.error_code); }) visit(message.error_code);
  const auto each = [&visit](const auto& items) {
    for (const auto& item : items) ForEachErrorCode(item, visit);
  };
  if constexpr (requires { message.topics.begin(); }) each(message.topics);
  if constexpr (requires { message.responses.begin(); }) each(message.responses);
  if constexpr (requires { message.partitions.begin(); }) each(message.partitions);
  if constexpr (requires { message.partition_responses.begin(); })
    each(message.partition_responses);
  if constexpr (requires { message.coordinators.begin(); }) each(message.coordinators);
}

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_BROKER_METRICS_H_
