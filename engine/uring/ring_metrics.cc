#include "engine/uring/ring_metrics.h"

#include <dirent.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace gyre::uring {

namespace {

// "iou-wrk-" and the id of the thread that has the ring.
constexpr char kWorkerName[] = "iou-wrk-";

bool IsWorker(const char* thread_id) {
  std::FILE* file = std::fopen(absl::StrCat("/proc/self/task/", thread_id, "/comm").c_str(), "re");
  if (file == nullptr) return false;  // it has ended
  char name[sizeof(kWorkerName)] = {};
  const bool read = std::fread(name, 1, sizeof(name) - 1, file) == sizeof(name) - 1;
  std::fclose(file);
  return read && std::strcmp(name, kWorkerName) == 0;
}

}  // namespace

int WorkerThreadCount() {
  DIR* directory = opendir("/proc/self/task");
  if (directory == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.' && IsWorker(entry->d_name)) ++count;
  }
  closedir(directory);
  return count;
}

void CollectWorkers(MetricSink& sink) {
  sink.Gauge("gyre_uring_worker_threads",
             "Threads that the kernel keeps for operations that would block (io-wq), of all rings; "
             "an idle one ends after some seconds.",
             "", WorkerThreadCount());
}

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
      "Operations of kinds that the kernel hands to its workers (splice, sync), as they are "
      "submitted; gyre_uring_worker_threads says what they take.",
      stats.worker_operations);
}

}  // namespace gyre::uring
