// A broker with its sockets and threads, from one options struct: what gyred's
// main runs, and what tests run in their own process.
//
//   threads: acceptor-*, processor-*, handler-* (network), timer, log-io
//
// Threads: one controlling thread; the getters any after Start.
// Owns: everything.  Borrows: file system and metrics of the options.
#ifndef GYRE_TOOLS_GYRED_BROKER_SERVER_H_
#define GYRE_TOOLS_GYRED_BROKER_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/admin/admin_handler.h"
#include "engine/base/uuid.h"
#include "engine/broker/broker_config.h"
#include "engine/fs/file_system.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/network/endpoint.h"
#include "engine/network/server_options.h"
#include "engine/storage/flusher.h"
#include "engine/uring/features.h"

namespace gyre {

class Broker;
class SocketServer;

// What main opens beside the broker server (gyred_admin.h).
struct AdminListenerOptions {
  bool enabled = false;
  Endpoint endpoint;
  AdminWrites writes = AdminWrites::kLoopback;
  int32_t max_connections = 64;
  int64_t connections_max_idle_ms = 60'000;
};

// Whether main asks a running process for its sockets, and where it offers its own
// (gyred_takeover.h).
struct TakeoverOptions {
  bool wanted = false;
  std::string socket;  // "": in the data directory
  int64_t timeout_ms = 60'000;
};

struct BrokerServerOptions {
  // ring_factory, clock, metrics and api_names are filled in by the server.
  SocketServerOptions network;
  BrokerConfig broker;
  std::string log_dir;
  std::optional<Uuid> cluster_id;
  FlushMode flush_mode = FlushMode::kGroup;
  int64_t flush_interval_ms = 1000;  // FlushMode::kInterval
  // How often partitions that could not be made are tried again, and fetches of
  // clients that are gone are looked for.
  int64_t upkeep_interval_ms = 5000;
  int64_t checkpoint_interval_ms = 60'000;  // what bounds the scan after a crash
  int64_t drain_timeout_ms = 30'000;
  uint64_t seed = 0;

  AdminListenerOptions admin;
  TakeoverOptions takeover;
  uring::FeatureSet uring_hidden;
  bool require_registered_buffers = false;

  FileSystem* file_system = nullptr;  // null: the kernel's
  MetricRegistry* metrics = nullptr;  // null: one of its own
};

// Where none was given: a share of what there is, and at least what is needed.
void SetDefaultMemoryLimit(SocketServerOptions* network);

class BrokerServer {
 public:
  explicit BrokerServer(BrokerServerOptions options);
  // Stops without draining if Stop was not called.
  ~BrokerServer();
  BrokerServer(const BrokerServer&) = delete;
  BrokerServer& operator=(const BrokerServer&) = delete;

  // See SocketServer. Before Prepare.
  void AdoptListenSockets(std::vector<ListenSocket> sockets);
  // All of a start that does not need the data directory: threads, io_uring, memory,
  // addresses. Start does it when nobody did. Errors as Start's.
  absl::Status Prepare();

  // All the rest of it that serves nobody: takes the data directory and recovers it, which
  // may take minutes. Start does it when nobody did. Errors as Start's.
  absl::Status Recover();

  // Serves. An error is one line for the person who started it, and leaves nothing
  // running.
  absl::Status Start();

  // As clients reach them, in the order of the options. After Start.
  const std::vector<Endpoint>& bound_endpoints() const;

  // Answers what is under way and closes the connections, for up to drain_timeout_ms. Once.
  void Drain();
  // Drains if that was not done, syncs everything, leaves the clean-stop marker. Not OK when
  // the marker could not be left.
  absl::Status Stop();
  // Ends at once, as a crash would as far as the data directory is concerned:
  // nothing is synced, no marker.
  void Abandon();

  MetricRegistry& metrics();
  Broker& broker();

  // --- while it serves: from one thread at a time --------------------------------
  SocketServer& network();
  // For the next drain.
  void SetDrainTimeout(int64_t drain_timeout_ms);
  int64_t drain_timeout_ms() const;
  // What is broken, in one line: a network thread that is stuck, a partition whose log is
  // offline or that could not be made, a disk that is full, a data directory that is gone.
  absl::Status Health();

 private:
  struct State;
  absl::Status StartThreads();
  absl::Status OpenNetwork();
  absl::Status OpenBroker();
  absl::Status StartNetwork();
  absl::Status Register();
  void StopThreads();

  std::unique_ptr<State> state_;
};

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_BROKER_SERVER_H_
