// A thread with a ring and a connector, which drives one ThreadLoad from its first
// connection to its last answer.
//
// Threads: made, started and joined by one thread; runs its own.
// Owns: its ring and load, and on its thread the connector.  Borrows: the part.
#ifndef GYRE_TOOLS_LOAD_WORKER_H_
#define GYRE_TOOLS_LOAD_WORKER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/concurrent/mutex.h"
#include "engine/uring/ring.h"
#include "tools/load/workload.h"

namespace gyre::load {

// Holds every worker until all are ready, then gives all the same start.
class StartGate {
 public:
  explicit StartGate(int32_t worker_count) : missing_(worker_count) {}

  // A worker: reports how opening went and waits. Null: there will be no start.
  std::optional<int64_t> Arrive(const absl::Status& status);
  // The conductor: waits until all arrived or one failed (false after `timeout_ns`);
  // the first failure.
  bool AwaitAll(int64_t timeout_ns, absl::Status* status);
  void Open(int64_t start_ns);
  void Abandon();

 private:
  Mutex mutex_;
  CondVar changed_;
  int32_t missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool decided_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<int64_t> start_ns_ ABSL_GUARDED_BY(mutex_);
};

class Worker {
 public:
  // `ring`: made by the maker of the worker, attached to its thread.
  Worker(Part& part, std::unique_ptr<uring::Ring> ring, std::unique_ptr<ThreadLoad> load,
         StartGate& gate, const std::atomic<bool>& interrupted)
      : part_(part),
        ring_(std::move(ring)),
        load_(std::move(load)),
        gate_(gate),
        interrupted_(interrupted) {}

  void Start();
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  // After Join.
  void Collect(PartResult* result);
  int64_t ended_ns() const { return ended_ns_; }

 private:
  void Run();
  absl::Status OpenAll(Connector& connector);
  void RunWindow(Connector& connector, const Window& window);

  Part& part_;
  const std::unique_ptr<uring::Ring> ring_;
  const std::unique_ptr<ThreadLoad> load_;
  StartGate& gate_;
  const std::atomic<bool>& interrupted_;
  std::optional<Recorder> recorder_;
  int64_t ended_ns_ = 0;
  // Set with release when the thread is done; pairs with finished().
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_WORKER_H_
