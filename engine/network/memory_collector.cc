#include "engine/network/memory_collector.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gyre {

void MemoryCollector::Collect(MetricSink& sink) {
  for (const SlabPool::ClassUsage& usage : slab_.Usage()) {
    const std::string labels = MetricLabel("slot_bytes", absl::StrCat(usage.slot_bytes));
    sink.Gauge("gyre_slab_slots", "Slots of the slab, by their size.", labels, usage.slot_count);
    sink.Gauge("gyre_slab_slots_lent", "Of these, those that hold a request or an answer.", labels,
               usage.lent_count);
  }
  sink.Counter("gyre_slab_exhausted_total", "Buffers that no slot was left for, or large enough.",
               "", static_cast<double>(slab_.exhausted_count()));
  sink.Gauge("gyre_large_ranges_lent_bytes", "Bytes of requests too large for a slot.", "",
             static_cast<double>(ranges_.lent_bytes()));
}

}  // namespace gyre
