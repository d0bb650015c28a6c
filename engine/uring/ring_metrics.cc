#include "engine/uring/ring_metrics.h"

#include <string>

namespace gyre::uring {

void CollectRingStats(const RingStats& stats, absl::string_view thread, MetricSink& sink) {
  const std::string labels = MetricLabel("thread", thread);
  const auto add = [&](const char* name, const char* help, uint64_t value) {
    sink.Counter(name, help, labels, static_cast<double>(value));
  };
  add("gyre_uring_enters_total", "io_uring_enter calls.", stats.enters);
  add("gyre_uring_submissions_total", "Operations that the kernel took.", stats.submissions);
  add("gyre_uring_completions_total", "Completions; by enters: how many a call brings.",
      stats.completions);
  add("gyre_uring_batched_waits_total", "Waits for more than one completion.", stats.batched_waits);
  add("gyre_uring_receive_arms_total", "Receives armed; multishot ones arm again when they end.",
      stats.receive_arms);
  add("gyre_uring_accept_arms_total", "Accepts armed.", stats.accept_arms);
  add("gyre_uring_no_buffers_total", "Receives that ended for want of a buffer (ENOBUFS).",
      stats.no_buffers);
  add("gyre_uring_wakes_total", "Wake-ups by other threads.", stats.wakes);
  add("gyre_uring_full_submissions_total", "Times the submission queue was flushed early.",
      stats.full_submissions);
  add("gyre_uring_overflows_total", "Times the completion queue had overflown.", stats.overflows);
  add("gyre_uring_worker_operations_total",
      "Operations of kinds that the kernel hands to its workers (splice, sync).",
      stats.worker_operations);
}

}  // namespace gyre::uring
