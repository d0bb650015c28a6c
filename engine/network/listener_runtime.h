// One listener at work: its listening socket and acceptor (or, with reuseport, a
// listening socket for each processor), its own processors with their rings and
// threads, and the plane their requests go to.
//
// Threads: one controlling thread; Resize any, while it serves. The getters any
// after Start.
// Owns: the listening socket, rings, processors, acceptor and their threads.
// Borrows: plane, handler and everything in Shared; they outlive it.
#ifndef GYRE_ENGINE_NETWORK_LISTENER_RUNTIME_H_
#define GYRE_ENGINE_NETWORK_LISTENER_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/memory/large_ranges.h"
#include "engine/memory/slab_pool.h"
#include "engine/network/accept/acceptor.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/listener.h"
#include "engine/network/network_metrics.h"
#include "engine/network/network_plane.h"
#include "engine/network/processor/processor_pool.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/request/request_metrics.h"
#include "engine/network/server_options.h"
#include "engine/uring/ring.h"

namespace gyre {

class ListenerRuntime {
 public:
  // What the listeners of a server have in common.
  struct Shared {
    const SocketServerOptions& options;
    // As they are now; the options have those of the start.
    const ConnectionOptions& connection_options;
    const std::atomic<int64_t>& max_frame_bytes;
    const RingFactory& make_ring;
    const Clock& clock;
    ConnectionQuotas& quotas;
    SlabPool& slab;
    LargeRanges& large_ranges;
    NetworkMetrics& metrics;
    RequestMetrics& request_metrics;
    // Processors are numbered through the whole server.
    std::atomic<int>& next_processor_index;
    // Sockets that were handed to this process; a listener takes those that are its own.
    std::vector<ListenSocket>& adopted;
  };

  ListenerRuntime(int index, const ListenerOptions& options, const FrameDecoder& default_decoder,
                  NetworkPlane& plane, RequestHandler& handler, const Shared& shared);
  ListenerRuntime(const ListenerRuntime&) = delete;
  ListenerRuntime& operator=(const ListenerRuntime&) = delete;

  // --- in this order -----------------------------------------------------------
  // Binds, and makes the rings, processors and the acceptor.
  absl::Status Open();
  // Returns when every ring is attached. `*registered` gets what registering the
  // slab said, when it was refused.
  absl::Status StartProcessors(absl::Status* registered);
  absl::Status StartAccepting();

  // --- from outside in ---------------------------------------------------------
  void StopAccepting();
  void BeginDrain();
  void CloseAll();
  // False once the listening sockets are closed, or were never accepted from.
  bool accepting() const;
  bool processors_running() const;
  int64_t open_connections() const { return processors_.open_connections(); }
  void SetConnectionOptions(const ConnectionOptions& options);
  // See ProcessorPool: whether it may become `count`, and then to do it.
  absl::Status CheckNetworkThreads(int32_t count) const;
  absl::Status ResizeNetworkThreads(int32_t count);
  // Duplicates of its listening sockets, for a process that shall take them over.
  // FAILED_PRECONDITION when accepting has stopped.
  absl::Status DuplicateSockets(std::vector<ListenSocket>* sockets);
  // Each of its processors adds what it has.
  void AddTo(const std::shared_ptr<ConnectionList>& list);
  void JoinAcceptor();
  void JoinProcessors() { processors_.Stop(); }

  const Listener& listener() const { return listener_; }
  NetworkPlane& plane() { return plane_; }
  ProcessorPool& processors() { return processors_; }

 private:
  bool reuse_port() const { return shared_.options.accept_mode == AcceptMode::kReusePort; }
  absl::Status Bind();
  absl::Status Keep(const UniqueFd& fd);
  void WarnIfOpen() const;
  absl::Status MakeAcceptor();
  // One of the processors accepts from it.
  void Listen(UniqueFd listen_fd);

  const ListenerOptions& options_;
  NetworkPlane& plane_;
  const Shared shared_;
  Listener listener_;
  // Until those who accept have them: one, or with reuse_port one for each processor.
  std::vector<UniqueFd> listen_fds_;
  int32_t listening_ = 0;  // sockets that processors have
  // Duplicates of all, while it accepts.
  Mutex mutex_;
  std::vector<UniqueFd> kept_fds_ ABSL_GUARDED_BY(mutex_);
  ProcessorPool processors_;
  std::unique_ptr<Acceptor> acceptor_;  // null with reuse_port
  std::unique_ptr<ThreadRunner> acceptor_thread_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_LISTENER_RUNTIME_H_
