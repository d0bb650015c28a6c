// What acceptors, intakes and processors tell about themselves while they live: their
// ring's counts, how long they were idle or blocked, their connections. Each enters itself and
// leaves with its destruction, so that what is gone is not told of.
//
// Threads: the fields of an entry as their types say; NetworkThreads any.
#ifndef GYRE_ENGINE_NETWORK_NETWORK_THREADS_H_
#define GYRE_ENGINE_NETWORK_NETWORK_THREADS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/base/owner_counter.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/wait_meter.h"
#include "engine/metrics/counter.h"
#include "engine/uring/ring.h"

namespace gyre {

struct NetworkThread {
  enum class Kind : uint8_t { kAcceptor, kIntake, kProcessor };

  Kind kind = Kind::kProcessor;
  int index = 0;  // of a processor
  int64_t started_ns = 0;
  std::string listener;
  const uring::Ring* ring = nullptr;
  WaitMeter waits;
  // Of an intake: for how long a maximum, a rate or missing descriptors kept it from
  // accepting.
  int64_t (*blocked_ns)(const void* context, int64_t now_ns) = nullptr;
  const void* blocked_context = nullptr;
  // Of a processor: when its turn began; kNoTurn while it waits for something to do.
  static constexpr int64_t kNoTurn = -1;
  std::atomic<int64_t> turn_began_ns{kNoTurn};
  const std::atomic<int64_t>* open_connections = nullptr;
  Gauge responses_queued;  // and ends of throttling
  OwnerCounter connections_opened;
  OwnerCounter connections_closed;
  OwnerCounter requests;
};

class NetworkThreads {
 public:
  void Add(const NetworkThread* thread) {
    MutexLock lock(mutex_);
    threads_.push_back(thread);
    CountProcessors();
  }
  // `thread` is not looked at any more once this returned.
  void Remove(const NetworkThread* thread) {
    MutexLock lock(mutex_);
    threads_.erase(std::remove(threads_.begin(), threads_.end(), thread), threads_.end());
    CountProcessors();
  }
  void ForEach(absl::FunctionRef<void(const NetworkThread&)> visit) const {
    MutexLock lock(mutex_);
    for (const NetworkThread* thread : threads_) visit(*thread);
  }
  // Lock-free.
  int64_t processor_count() const { return processor_count_.load(std::memory_order_relaxed); }

 private:
  void CountProcessors() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    processor_count_.store(std::count_if(threads_.begin(), threads_.end(),
                                         [](const NetworkThread* thread) {
                                           return thread->kind == NetworkThread::Kind::kProcessor;
                                         }),
                           std::memory_order_relaxed);
  }

  mutable Mutex mutex_;  // innermost
  std::vector<const NetworkThread*> threads_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> processor_count_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_NETWORK_THREADS_H_
