// A ring's counts as metrics, and the kernel's workers.
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

// Threads that the kernel keeps for this process's rings (io-wq), busy ones and those
// that wait a few seconds for more. Reads /proc; 0 where that cannot be read.
int WorkerThreadCount();
// gyre_uring_worker_threads.
void CollectWorkers(MetricSink& sink);

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_RING_METRICS_H_
