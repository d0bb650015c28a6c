// A ring's counts as metrics.
//
// Threads: any.
#ifndef GYRE_ENGINE_URING_RING_METRICS_H_
#define GYRE_ENGINE_URING_RING_METRICS_H_

#include "absl/strings/string_view.h"
#include "engine/metrics/exposition.h"
#include "engine/uring/ring.h"

namespace gyre::uring {

// gyre_uring_…_total, with `thread` as their label.
void CollectRingStats(const RingStats& stats, absl::string_view thread, MetricSink& sink);

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_RING_METRICS_H_
