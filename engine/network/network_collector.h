// What a server tells at each scrape beside its counters: Kafka's gauges of processors,
// acceptors, handlers, queues and memory under the names that Kafka's dashboards know,
// and io_uring's counts by thread.
//
// Threads: Collect one at a time.
// Borrows: the threads' entries, quotas, planes and clock.
#ifndef GYRE_ENGINE_NETWORK_NETWORK_COLLECTOR_H_
#define GYRE_ENGINE_NETWORK_NETWORK_COLLECTOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/metrics/exposition.h"
#include "engine/metrics/share_window.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/network_metrics.h"
#include "engine/network/network_plane.h"

namespace gyre {

class NetworkCollector final : public MetricCollector {
 public:
  // `control_planes`: those of privileged listeners.
  NetworkCollector(const Clock& clock, const NetworkThreads& threads,
                   const ConnectionQuotas& quotas, NetworkPlane& data_plane,
                   std::vector<NetworkPlane*> control_planes);

  void Collect(MetricSink& sink) override;

 private:
  void CollectProcessor(const NetworkThread& thread, int64_t now_ns, MetricSink& sink);
  void CollectIntake(const NetworkThread& thread, int64_t now_ns);
  void CollectHandlers(int64_t now_ns, MetricSink& sink);
  void CollectPlanes(MetricSink& sink);
  void CollectAddresses(MetricSink& sink);
  // The share of the window of that name; of a new one since `started_ns`.
  double Share(const std::string& name, int64_t now_ns, int64_t total_ns, int64_t started_ns,
               int parallel = 1);

  // So many are told of: who makes connections does not decide how many series there are.
  static constexpr size_t kAddresses = 10;

  const Clock& clock_;
  const NetworkThreads& threads_;
  const ConnectionQuotas& quotas_;
  NetworkPlane& data_plane_;
  const std::vector<NetworkPlane*> control_planes_;
  const int64_t made_ns_;

  // By name; those of threads that are gone go with them.
  struct Window {
    ShareWindow share;
    int64_t seen_ns = 0;
  };
  std::map<std::string, Window> windows_;

  // Of this scrape.
  struct Mean {
    double sum = 0;
    int count = 0;
    double Value(double none) const { return count == 0 ? none : sum / count; }
  };
  int64_t responses_queued_ = 0;
  Mean idle_;                            // over processors
  std::map<std::string, Mean> blocked_;  // over intakes, by listener
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_NETWORK_COLLECTOR_H_
