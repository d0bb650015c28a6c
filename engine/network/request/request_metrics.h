// What a request's life took, per API: how many, and the seven times, recorded when its
// response has left (or was dropped). Told under Kafka's names as summaries in
// milliseconds, and once more as one histogram family in seconds, which can be added up
// over brokers.
//
// Threads: Record any, on the thread's own cells.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_METRICS_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/histogram.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/request/request.h"

namespace gyre {

// The seven times, in nanoseconds. Times that were not reached are 0.
struct RequestSpans {
  int64_t request_queue_ns = 0;   // frame complete -> a handler took it
  int64_t local_ns = 0;           // -> Start returned
  int64_t remote_ns = 0;          // -> replied to
  int64_t throttle_ns = 0;        // assigned; not part of the total
  int64_t response_queue_ns = 0;  // -> the processor took the response
  int64_t response_send_ns = 0;   // -> last byte handed to the kernel
  int64_t total_ns = 0;

  // `times.sent_ns` is set.
  static RequestSpans Of(const RequestTimes& times);
};

class RequestMetrics {
 public:
  // `api_names[i]` is what Request::api == i is called; "" where there is none. Other
  // values count as "unknown". Requests are counted by version up to
  // `api_max_versions[i]` where that is known. A null registry records nothing.
  RequestMetrics(MetricRegistry* registry, const std::vector<std::string>& api_names,
                 const std::vector<int16_t>& api_max_versions = {});

  void Record(int16_t api, int16_t version, const RequestSpans& spans, int64_t request_bytes);
  // "Fetch"; "unknown" for what is none of ours.
  absl::string_view NameOf(int16_t api) const;

 private:
  struct PerApi {
    std::vector<Counter> requests_by_version;  // the last one: any other
    Histogram request_bytes;
    Histogram request_queue_ns;
    Histogram local_ns;
    Histogram remote_ns;
    Histogram throttle_ns;
    Histogram response_queue_ns;
    Histogram response_send_ns;
    Histogram total_ns;
  };
  static PerApi Register(MetricRegistry& registry, const std::string& name, int max_version);
  size_t IndexOf(int16_t api) const;

  bool enabled_ = false;
  std::vector<PerApi> apis_;        // the last one is "unknown"
  std::vector<std::string> names_;  // likewise
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_METRICS_H_
