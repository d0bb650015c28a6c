// How many network threads each listener has while the server runs: its own number, or
// the server's when it has none. Either may change; those with a number of their own,
// and privileged ones, keep theirs when the server's does, as Kafka has it.
//
// Threads: any, one change at a time (it may wait for the threads that go).
// Borrows: the listeners.
#ifndef GYRE_ENGINE_NETWORK_LISTENER_THREADS_H_
#define GYRE_ENGINE_NETWORK_LISTENER_THREADS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/listener_runtime.h"
#include "engine/network/server_options.h"

namespace gyre {

class ListenerThreads {
 public:
  // `listeners[i]` is made from `options.listeners[i]`, before the first change. `options`
  // outlive this.
  ListenerThreads(const SocketServerOptions& options,
                  const std::vector<std::unique_ptr<ListenerRuntime>>& listeners);

  // Every listener is asked whether it may before the first one is changed, so a refusal
  // (ProcessorPool::CheckResize, or PlanMemory, for their receive buffers, as at a start)
  // leaves all as they were. So do threads that cannot be made: those that could go again.
  absl::Status SetServersNumber(int32_t num_network_threads);
  // The num_network_threads of `options`, one for each listener.
  absl::Status SetOwnNumbers(const std::vector<ListenerOptions>& options);

 private:
  absl::Status Resize(int32_t num_network_threads, const std::vector<ListenerOptions>& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int32_t CountBefore(size_t listener) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return NetworkThreadsOf(num_network_threads_, options_[listener]);
  }

  const SocketServerOptions& server_options_;  // as at the start
  const std::vector<std::unique_ptr<ListenerRuntime>>& listeners_;
  Mutex mutex_;  // outer: held while threads come and go
  int32_t num_network_threads_ ABSL_GUARDED_BY(mutex_);
  std::vector<ListenerOptions> options_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_LISTENER_THREADS_H_
