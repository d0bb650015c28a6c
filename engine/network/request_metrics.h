// What a request's life took, per API: how many, and the seven times as
// histograms, recorded when its response has left (or was dropped).
//
// Threads: Record any, on the thread's own cells.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_METRICS_H_
#define GYRE_ENGINE_NETWORK_REQUEST_METRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/metrics/counter.h"
#include "engine/metrics/histogram.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/request.h"

namespace gyre {

class RequestMetrics {
 public:
  // `api_names[i]` is what Request::api == i is called; "" where there is none.
  // Other values count as "unknown". A null registry records nothing.
  RequestMetrics(MetricRegistry* registry, const std::vector<std::string>& api_names);

  // `times.sent_ns` is set; times that were not reached are 0.
  void Record(int16_t api, const RequestTimes& times, int64_t request_bytes);

 private:
  struct PerApi {
    Counter requests;
    Histogram request_bytes;
    Histogram request_queue_ns;  // frame complete -> a handler took it
    Histogram local_ns;          // -> Start returned
    Histogram remote_ns;         // -> replied to
    Histogram throttle_ns;
    Histogram response_queue_ns;  // -> the processor took the response
    Histogram response_send_ns;   // -> last byte handed to the kernel
    Histogram total_ns;
  };
  static PerApi Register(MetricRegistry& registry, const std::string& name);

  bool enabled_ = false;
  std::vector<PerApi> apis_;  // the last one is "unknown"
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_METRICS_H_
