// What other threads ask of a processor now and then, beside the traffic: to go on with
// other options, and to list its connections. One flag on the processor's way; the rest
// is behind a lock that it takes only when the flag is up.
//
// Threads: Post… any; Take the owner.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_CONTROL_MAILBOX_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_CONTROL_MAILBOX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/concurrent/mutex.h"
#include "engine/network/connection/connection_info.h"
#include "engine/network/server_options.h"

namespace gyre {

// One look at the connections of several processors. Each adds its own, a few in every
// turn, and says when it is through; whoever asked waits, but not for ever.
//
// Threads: any.
class ConnectionList {
 public:
  ConnectionList(size_t max_count, int processor_count)
      : max_count_(max_count), pending_(processor_count) {}

  // Another processor was asked, before it can be through.
  void AwaitOneMore();

  // Processors.
  bool full() const;
  void Add(ConnectionInfo connection);
  void OnProcessorDone();

  // Waits until every processor is through or `timeout_ms` went by; what came by then.
  std::vector<ConnectionInfo> Await(int64_t timeout_ms);

 private:
  const size_t max_count_;
  mutable Mutex mutex_;
  CondVar done_;
  int pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<ConnectionInfo> connections_ ABSL_GUARDED_BY(mutex_);
};

class ControlMailbox {
 public:
  struct Posted {
    std::optional<ConnectionOptions> options;  // the newest
    std::vector<std::shared_ptr<ConnectionList>> lists;
  };

  void PostOptions(const ConnectionOptions& options);
  void PostList(std::shared_ptr<ConnectionList> list);

  // seq_cst, as the owner's other mailboxes: see processor.h.
  bool empty() const { return !posted_flag_.load(std::memory_order_seq_cst); }
  Posted Take();

 private:
  Mutex mutex_;
  Posted posted_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> posted_flag_{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_CONTROL_MAILBOX_H_
