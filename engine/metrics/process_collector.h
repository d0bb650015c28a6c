// The process as Prometheus' client libraries tell of it: CPU time, memory, descriptors.
//
// Threads: Collect one at a time.
#ifndef GYRE_ENGINE_METRICS_PROCESS_COLLECTOR_H_
#define GYRE_ENGINE_METRICS_PROCESS_COLLECTOR_H_

#include <cstdint>

#include "engine/metrics/exposition.h"

namespace gyre {

class ProcessCollector final : public MetricCollector {
 public:
  // `start_time_unix_ms`: when the process began.
  explicit ProcessCollector(int64_t start_time_unix_ms) : start_time_unix_ms_(start_time_unix_ms) {}

  void Collect(MetricSink& sink) override;

 private:
  const int64_t start_time_unix_ms_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_PROCESS_COLLECTOR_H_
