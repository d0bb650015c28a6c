// Everything of a broker but threads and sockets: data directory, logs, metadata,
// partitions, purgatories and the request handler over them, built in the order
// in which they need each other. A server gives it threads; a test or a
// simulation gives it a disk, a clock and a lane of its own.
//
// Threads: Open, Register and Close one controlling thread; the request handler
// any. Before Close no handler runs any more; the log-io thread still does.
// Owns: all of it.  Borrows: what Options points to; it outlives the broker.
#ifndef GYRE_ENGINE_BROKER_BROKER_H_
#define GYRE_ENGINE_BROKER_BROKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/base/uuid.h"
#include "engine/broker/apis.h"
#include "engine/broker/broker_config.h"
#include "engine/broker/broker_metrics.h"
#include "engine/broker/broker_services.h"
#include "engine/broker/metadata_cache.h"
#include "engine/broker/metadata_image.h"
#include "engine/broker/metadata_store.h"
#include "engine/broker/replica_manager.h"
#include "engine/broker/request_context.h"
#include "engine/concurrent/continuation.h"
#include "engine/fs/file_io.h"
#include "engine/fs/file_system.h"
#include "engine/network/request/request_handler.h"
#include "engine/purgatory/delayed_operation_purgatory.h"
#include "engine/storage/data_directory.h"
#include "engine/storage/flusher.h"
#include "engine/storage/log_manager.h"
#include "engine/timer/timer.h"

namespace gyre {

class MetricRegistry;

struct BrokerOptions {
  // cluster_id is filled in from the data directory.
  BrokerConfig config;
  std::string log_dir;
  std::optional<Uuid> cluster_id;  // that the directory must have, or gets
  FlushMode flush_mode = FlushMode::kGroup;
  int recovery_thread_count = 2;
  uint64_t seed = 0;  // of topic ids, incarnations and a new directory's ids

  FileSystem* file_system = nullptr;
  FileIo* file_io = nullptr;
  const Clock* clock = nullptr;
  Timer* timer = nullptr;
  ContinuationLane* lane = nullptr;
  BufferAllocator* response_allocator = nullptr;
};

class Broker {
 public:
  // Locks and recovers the data directory, replays the metadata log and opens
  // every partition. Errors are one line that says what to do. Blocks; the
  // log-io thread runs already.
  static absl::StatusOr<std::unique_ptr<Broker>> Open(const BrokerOptions& options);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  ~Broker();

  RequestHandler& request_handler() { return request_handler_; }

  // Announces where clients find this broker; blocks until that is durable.
  absl::Status Register(std::vector<BrokerEndpointImage> endpoints);

  // See ReplicaManager::CompleteDelayedFetches.
  void CompleteDelayedFetches() { replicas_.CompleteDelayedFetches(); }

  // Now and then, on a thread that may block.
  void WriteCheckpoints();
  void RetryUnmadePartitions() { metadata_store_->RetryUnmadePartitions(); }
  void CheckDelayedFetches() { replicas_.CheckDelayedFetches(); }
  // FlushMode::kInterval's; does not block.
  void RequestFlushAll() { logs_->RequestFlushAll(); }

  // Lets go of every request that waits; its connection is closed. No handler runs any more.
  void DropDelayed();

  // A clean stop: drops what waits, records the stop in the metadata log, syncs
  // every log, leaves the clean-stop marker.
  absl::Status Close();

  // What is broken in its data, in one line. Any thread, from Open to Close.
  absl::Status Health() const;

  // What it counts, and gauges that read this broker and are gone with it. Before the
  // first request.
  void AddMetrics(MetricRegistry& metrics);

  const BrokerConfig& config() const { return config_; }
  MetadataCache& metadata() { return metadata_; }
  MetadataStore& metadata_store() { return *metadata_store_; }
  ReplicaManager& replicas() { return replicas_; }
  LogManager& logs() { return *logs_; }
  const DataDirectory& directory() const { return *directory_; }

 private:
  // Tells the metadata log's events from the partitions'.
  class LogEvents : public LogListener {
   public:
    explicit LogEvents(Broker& broker) : broker_(broker) {}
    void OnSettled(PartitionLog& log) override;
    void OnOffline(PartitionLog& log) override;

   private:
    Broker& broker_;
  };

  Broker(const BrokerOptions& options, std::unique_ptr<DataDirectory> directory);

  absl::Status OpenLogs();
  // A directory with partitions whose metadata log was lost is not started on.
  absl::Status CheckMetadataLogIsThere() const;
  absl::StatusOr<LogRef> OpenMetadataLog();

  const BrokerOptions options_;
  BrokerConfig config_;
  Random random_;
  std::unique_ptr<DataDirectory> directory_;
  LogEvents log_events_{*this};
  DelayedOperationPurgatory produce_purgatory_;
  DelayedOperationPurgatory fetch_purgatory_;
  MetadataCache metadata_;
  ReplicaManager replicas_;
  std::unique_ptr<MetadataStore> metadata_store_;
  std::unique_ptr<LogManager> logs_;
  BrokerMetrics counts_;
  BrokerServices services_;
  ApiRequestHandler request_handler_;
  MetricRegistry* metrics_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_BROKER_H_
