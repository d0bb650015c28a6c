// The counters of acceptors and processors. One object for a server; handles are
// per-thread cells, so threads do not share lines.
//
// Threads: any.
#ifndef GYRE_ENGINE_NETWORK_NETWORK_METRICS_H_
#define GYRE_ENGINE_NETWORK_NETWORK_METRICS_H_

#include <cstdint>
#include <memory>

#include "engine/concurrent/mutex.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/metric_registry.h"
#include "engine/metrics/thread_cells.h"
#include "engine/network/listener_metrics.h"
#include "engine/network/network_threads.h"

namespace gyre {

struct NetworkMetrics {
  // Counts nothing with a null registry.
  explicit NetworkMetrics(MetricRegistry* registry);

  Counter connections_accepted;
  Counter connections_closed;
  Counter connections_refused_per_address;
  Counter connections_throttled_per_address;
  Counter connections_shed;
  Counter connections_expired;
  Counter accept_pauses;
  Counter connections_migrated;  // moved from one processor to another
  Counter bytes_received;
  Counter bytes_sent;
  Counter frames_received;
  Counter frames_invalid;
  Counter receive_starved;     // receives that found no provided buffer
  Counter receive_copied_out;  // receives copied because too many buffers were lent
  Counter receive_cancelled;   // receive-ahead reached its bound
  Counter requests_parked;     // runs that found the request channel full
  Counter requests_yielded;    // connections that had their share of a turn
  Counter throttles;           // requests that throttled their connection
  Counter memory_waits;        // connections that waited for the memory budget
  Counter file_bytes_copied;   // small slices sent beside the header, and copy mode
  Counter file_bytes_sendfile;
  Counter file_bytes_spliced;
  Counter file_pipes_exhausted;  // cold chunks copied because no pipe was free
  Counter file_sends_short;      // sendfiles and splices that found the socket full
  Counter responses_stalled;     // readers cut off because others waited for their memory
  Counter responses_shed;        // holders cut off because memory would not hold it all
  Counter partials_broken;       // unfinished requests cut off for what they held
  Counter zero_copy_sends;
  Counter zero_copy_copied;      // notifications that said: copied after all
  Counter zero_copy_resets;      // connections reset at their close deadline
  Gauge zero_copy_pinned_bytes;  // lent to the kernel now
  Gauge response_memory_bytes;   // answers and what was received ahead, where bounded
  Gauge connections;

  NetworkThreads threads;
  Gauge throttled_connections;

  // Counts what waits in one processor's mailbox; told with its NetworkThread, and so
  // not after it is gone. Any thread.
  Gauge MakeResponseQueueSize();
  // What is counted of the listener of that name. Any thread.
  ListenerMetrics OfListener(absl::string_view listener) const {
    return ListenerMetrics(registry_, listener);
  }

 private:
  static constexpr uint32_t kMaxResponseQueues = 1 << 15;

  MetricRegistry* const registry_;
  Mutex mutex_;
  std::unique_ptr<ThreadCells> response_queue_cells_ ABSL_GUARDED_BY(mutex_);  // null: uncounted
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_NETWORK_METRICS_H_
