// What is counted of one listener's accepting, under Kafka's names of its connection
// quotas. Kafka tells rates and mean delays; here they are totals, of which any span's
// rate and mean can be had.
//
// Threads: any.
#ifndef GYRE_ENGINE_NETWORK_LISTENER_METRICS_H_
#define GYRE_ENGINE_NETWORK_LISTENER_METRICS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/metric_registry.h"

namespace gyre {

struct ListenerMetrics {
  // How often something had to wait for a rate, and for how long.
  struct Delays {
    Counter count;
    Counter time_ms;
    void Record(int64_t delay_ns) {
      count.Increment();
      time_ms.Add((delay_ns + 999'999) / 1'000'000);
    }
  };

  ListenerMetrics() = default;  // counts nothing
  ListenerMetrics(MetricRegistry* registry, absl::string_view listener);

  Counter accepted;
  Delays throttled;     // accepting, by the server's or the listener's rate
  Delays ip_throttled;  // single connections, by their address's rate
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_LISTENER_METRICS_H_
