#include "engine/broker/broker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/broker/log_settings.h"
#include "engine/broker/storage_health.h"
#include "engine/broker/topic_name.h"
#include "engine/broker/topic_planner.h"
#include "engine/metrics/metric_registry.h"
#include "glog/logging.h"

namespace gyre {

namespace {

// Kafka's bound on a batch of the metadata log is 8 MiB; room for its header.
constexpr int32_t kMaxMetadataBatchBytes = (8 << 20) + (1 << 20);

TopicPartition MetadataPartition() { return {std::string(kMetadataTopicName), 0}; }

LogConfig MetadataLogConfig() {
  LogConfig config;
  config.max_message_bytes = kMaxMetadataBatchBytes;
  return config;
}

}  // namespace

void Broker::LogEvents::OnSettled(PartitionLog& log) {
  if (log.topic_partition().topic == kMetadataTopicName) {
    if (broker_.metadata_store_ != nullptr) broker_.metadata_store_->OnSettled();
    return;
  }
  broker_.replicas_.OnSettled(log);
}

void Broker::LogEvents::OnOffline(PartitionLog& log) {
  if (log.topic_partition().topic == kMetadataTopicName) {
    if (broker_.metadata_store_ != nullptr) broker_.metadata_store_->OnOffline();
    return;
  }
  broker_.replicas_.OnOffline(log);
}

Broker::Broker(const BrokerOptions& options, std::unique_ptr<DataDirectory> directory)
    : options_(options),
      config_(options.config),
      random_(options.seed),
      directory_(std::move(directory)),
      produce_purgatory_(*options.clock, *options.timer, *options.lane),
      fetch_purgatory_(*options.clock, *options.timer, *options.lane),
      replicas_(config_, produce_purgatory_, fetch_purgatory_),
      services_{config_, *options.clock, metadata_, replicas_, counts_, nullptr},
      request_handler_(services_, *options.response_allocator) {
  config_.cluster_id = directory_->cluster_id();
  MetadataStoreOptions store;
  store.config = &config_;
  store.clock = options.clock;
  store.random = &random_;
  store.cache = &metadata_;
  store.replicas = &replicas_;
  store.lane = options.lane;
  store.file_system = options.file_system;
  store.directory_id = directory_->directory_id();
  store.unclean_start = !directory_->was_clean_stop();
  metadata_store_ = std::make_unique<MetadataStore>(store);
  services_.controller = metadata_store_.get();
}

Broker::~Broker() {
  if (metrics_ != nullptr) metrics_->RemoveCallbackGauges(this);
}

absl::StatusOr<std::unique_ptr<Broker>> Broker::Open(const BrokerOptions& options) {
  Random random(options.seed ^ 0x9e3779b97f4a7c15);
  DataDirectoryOptions directory_options;
  directory_options.node_id = options.config.node_id;
  directory_options.cluster_id = options.cluster_id;
  directory_options.fresh_cluster_id = RandomUuid(random);
  directory_options.fresh_directory_id = RandomUuid(random);
  GYRE_ASSIGN_OR_RETURN(
      std::unique_ptr<DataDirectory> directory,
      DataDirectory::Open(*options.file_system, options.log_dir, directory_options));
  std::unique_ptr<Broker> broker(new Broker(options, std::move(directory)));
  GYRE_RETURN_IF_ERROR(broker->OpenLogs());
  return broker;
}

absl::Status Broker::CheckMetadataLogIsThere() const {
  const LogRef metadata_log = logs_->Find(MetadataPartition());
  if (metadata_log != nullptr &&
      (metadata_log->is_offline() || metadata_log->log_end_offset() > 0)) {
    return absl::OkStatus();
  }
  // Nothing was ever recorded, so there can be no topic.
  for (const LogRef& log : logs_->All()) {
    if (log == metadata_log) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "data directory ", options_.log_dir, " holds partition ", log->topic_partition().ToString(),
        " but no metadata log; restore ", MetadataPartition().ToString(),
        " or give an empty directory with --log_dirs"));
  }
  return absl::OkStatus();
}

absl::StatusOr<LogRef> Broker::OpenMetadataLog() {
  if (LogRef log = logs_->Find(MetadataPartition())) {
    log->UpdateConfig(MetadataLogConfig());
    return log;
  }
  return logs_->Create(MetadataPartition(), MetadataStore::kTopicId, MetadataLogConfig());
}

absl::Status Broker::OpenLogs() {
  LogManagerOptions options;
  options.default_config = ToLogConfig(EffectiveTopicConfig({}, config_.topic_defaults));
  options.flush_mode = options_.flush_mode;
  options.always_durable_topic = std::string(kMetadataTopicName);
  options.file_io = options_.file_io;
  options.clock = options_.clock;
  options.listener = &log_events_;
  options.lane = options_.lane;
  options.recovery_thread_count = options_.recovery_thread_count;
  GYRE_ASSIGN_OR_RETURN(logs_, LogManager::Open(*directory_, options));
  if (logs_->recovered_log_count() > 0) {
    LOG(INFO) << "recovered " << logs_->recovered_log_count() << " logs after an unclean stop";
  }
  replicas_.SetLogManager(logs_.get());
  GYRE_RETURN_IF_ERROR(CheckMetadataLogIsThere());
  GYRE_ASSIGN_OR_RETURN(LogRef metadata_log, OpenMetadataLog());
  return metadata_store_->Open(std::move(metadata_log));
}

absl::Status Broker::Register(std::vector<BrokerEndpointImage> endpoints) {
  return metadata_store_->Register(std::move(endpoints));
}

void Broker::WriteCheckpoints() {
  const absl::Status written = logs_->WriteCheckpoints();
  if (!written.ok()) LOG(WARNING) << "checkpoints: " << written.message();
}

void Broker::DropDelayed() {
  produce_purgatory_.Shutdown();
  fetch_purgatory_.Shutdown();
  // Those whose turn had come are in the lane, which holds them.
  options_.lane->DropAll();
}

absl::Status Broker::Close() {
  DropDelayed();
  const absl::Status recorded = metadata_store_->Close();
  if (!recorded.ok()) LOG(ERROR) << "recording the clean stop: " << recorded.message();
  return logs_->Close(metadata_store_->broker_epoch());
}

absl::Status Broker::Health() const { return StorageHealth(*directory_, *logs_, replicas_); }

void Broker::AddMetrics(MetricRegistry& metrics) {
  metrics_ = &metrics;
  counts_.Register(metrics);
  const auto add = [&](absl::string_view name, absl::string_view help,
                       MetricRegistry::ReadGauge read) {
    metrics.AddCallbackGauge(name, help, "", read, this);
  };
  using B = const Broker*;
  add("gyre_broker_topics", "topics of the metadata image", [](const void* broker) {
    return static_cast<int64_t>(static_cast<B>(broker)->metadata_.Current()->topic_count());
  });
  add("kafka_server_replicamanager_offlinereplicacount",
      "Partitions whose log is offline, or could not be made.", [](const void* broker) {
        const B self = static_cast<B>(broker);
        return OfflineReplicaCount(*self->logs_, self->replicas_);
      });
  add("gyre_broker_metadata_offset", "last metadata record applied",
      [](const void* broker) { return static_cast<B>(broker)->metadata_.Current()->offset(); });
  const auto add_purgatory = [&](absl::string_view operation, MetricRegistry::ReadGauge read) {
    metrics.AddCallbackGauge("kafka_server_delayedoperationpurgatory_numdelayedoperations",
                             "Requests that wait for something to happen, or for their time.",
                             MetricLabel("delayedoperation", operation), read, this);
  };
  const auto add_watched = [&](absl::string_view operation, MetricRegistry::ReadGauge read) {
    metrics.AddCallbackGauge("kafka_server_delayedoperationpurgatory_purgatorysize",
                             "The same, counted once for every key they are watched under.",
                             MetricLabel("delayedoperation", operation), read, this);
  };
  add_watched("Produce", [](const void* broker) {
    return static_cast<B>(broker)->produce_purgatory_.watched_count();
  });
  add_watched("Fetch", [](const void* broker) {
    return static_cast<B>(broker)->fetch_purgatory_.watched_count();
  });
  add_purgatory("Produce", [](const void* broker) {
    return static_cast<B>(broker)->produce_purgatory_.pending_count();
  });
  add_purgatory("Fetch", [](const void* broker) {
    return static_cast<B>(broker)->fetch_purgatory_.pending_count();
  });
  add("gyre_log_syncs", "fdatasync calls of partition logs", [](const void* broker) {
    return static_cast<int64_t>(static_cast<B>(broker)->logs_->flusher().sync_count());
  });
  add("gyre_log_sync_errors", "fdatasync calls that failed", [](const void* broker) {
    return static_cast<int64_t>(static_cast<B>(broker)->logs_->flusher().sync_error_count());
  });
  add("gyre_log_flush_mode", "0 group, 1 interval, 2 none", [](const void* broker) {
    return static_cast<int64_t>(static_cast<B>(broker)->options_.flush_mode);
  });
}

}  // namespace gyre
