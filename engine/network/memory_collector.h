// Tells at each scrape what is lent of the server's own memory: slots of the slab by their
// size, and ranges for what is larger. The budgets that bound requests and answers are told
// by network_collector and network_metrics.
//
// Threads: as MetricCollector.
// Borrows: slab and ranges.
#ifndef GYRE_ENGINE_NETWORK_MEMORY_COLLECTOR_H_
#define GYRE_ENGINE_NETWORK_MEMORY_COLLECTOR_H_

#include "engine/memory/large_ranges.h"
#include "engine/memory/slab_pool.h"
#include "engine/metrics/exposition.h"

namespace gyre {

class MemoryCollector final : public MetricCollector {
 public:
  MemoryCollector(const SlabPool& slab, const LargeRanges& ranges) : slab_(slab), ranges_(ranges) {}

  void Collect(MetricSink& sink) override;

 private:
  const SlabPool& slab_;
  const LargeRanges& ranges_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_MEMORY_COLLECTOR_H_
