#include "engine/broker/replica_manager.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/broker/log_settings.h"
#include "engine/broker/topic_name.h"
#include "glog/logging.h"

namespace gyre {

ReplicaManager::ReplicaManager(const BrokerConfig& config,
                               DelayedOperationPurgatory& produce_purgatory,
                               DelayedOperationPurgatory& fetch_purgatory)
    : config_(config), produce_purgatory_(produce_purgatory), fetch_purgatory_(fetch_purgatory) {}

ReplicaManager::~ReplicaManager() = default;

ReplicaManager::Shard& ReplicaManager::ShardOf(absl::string_view topic) const {
  return shards_[absl::Hash<absl::string_view>()(topic) % kShardCount];
}

PartitionRef ReplicaManager::Find(absl::string_view topic, int32_t partition) const {
  if (partition < 0) return PartitionRef();
  const Shard& shard = ShardOf(topic);
  MutexLock lock(shard.mutex);
  const auto it = shard.topics.find(topic);
  if (it == shard.topics.end() || static_cast<size_t>(partition) >= it->second.size()) {
    return PartitionRef();
  }
  return it->second[static_cast<size_t>(partition)];
}

bool ReplicaManager::IsOffline(absl::string_view topic, int32_t partition) const {
  const PartitionRef found = Find(topic, partition);
  return found && found->log().is_offline();
}

void ReplicaManager::Apply(absl::Span<const MetadataImage::TopicPtr> removed,
                           absl::Span<const MetadataImage::TopicPtr> changed) {
  for (const MetadataImage::TopicPtr& topic : removed) Remove(*topic);
  for (const MetadataImage::TopicPtr& topic : changed) Change(*topic);
}

void ReplicaManager::Remove(const TopicImage& topic) {
  Partitions partitions;
  {
    Shard& shard = ShardOf(topic.name);
    MutexLock lock(shard.mutex);
    const auto it = shard.topics.find(topic.name);
    if (it == shard.topics.end()) return;
    partitions = std::move(it->second);
    shard.topics.erase(it);
  }
  for (const PartitionRef& partition : partitions) {
    if (!partition) continue;
    partition->MarkDeleted();
    const absl::Status deleted = logs_->Delete(partition->topic_partition());
    if (!deleted.ok()) LOG(ERROR) << "deleting a partition: " << deleted.message();
    WakeWaiters(*partition);
  }
}

void ReplicaManager::Change(const TopicImage& topic) {
  const LogConfig config =
      ToLogConfig(EffectiveTopicConfig(topic.configs, config_.topic_defaults));
  for (size_t i = 0; i < topic.partitions.size(); ++i) {
    if (!absl::c_linear_search(topic.partitions[i].replicas, config_.node_id)) continue;
    const absl::Status changed = ChangePartition(topic, static_cast<int32_t>(i), config);
    if (!changed.ok()) {
      LOG(ERROR) << "partition " << topic.name << "-" << i << ": " << changed.message();
    }
  }
}

absl::StatusOr<LogRef> ReplicaManager::OpenLog(const TopicPartition& topic_partition,
                                               const Uuid& topic_id, const LogConfig& config) {
  absl::StatusOr<LogRef> log = logs_->Create(topic_partition, topic_id, config);
  if (!absl::IsAlreadyExists(log.status())) return log;
  // A topic of that name which was removed, and whose files a crash left behind.
  LOG(WARNING) << topic_partition.ToString()
               << ": removing the log of an earlier topic of the same name";
  const absl::Status deleted = logs_->Delete(topic_partition);
  if (!deleted.ok()) return deleted;
  return logs_->Create(topic_partition, topic_id, config);
}

absl::Status ReplicaManager::ChangePartition(const TopicImage& topic, int32_t index,
                                             const LogConfig& config) {
  const int32_t leader_epoch = topic.partitions[static_cast<size_t>(index)].leader_epoch;
  PartitionRef partition = Find(topic.name, index);
  if (!partition) {
    absl::StatusOr<LogRef> log = OpenLog({topic.name, index}, topic.id, config);
    if (!log.ok()) return log.status();
    partition = MakeRef<Partition>(config_.node_id, topic.id, *std::move(log), leader_epoch);
  }
  PartitionLog& log = partition->log();
  log.UpdateConfig(config);
  if (!log.is_offline() && log.latest_leader_epoch() < leader_epoch) {
    const absl::Status started = log.StartLeaderEpoch(leader_epoch);
    if (!started.ok()) return started;
  }
  partition->SetLeaderEpoch(leader_epoch);
  Shard& shard = ShardOf(topic.name);
  MutexLock lock(shard.mutex);
  Partitions& partitions = shard.topics[topic.name];
  if (partitions.size() <= static_cast<size_t>(index)) {
    partitions.resize(static_cast<size_t>(index) + 1);
  }
  partitions[static_cast<size_t>(index)] = std::move(partition);
  return absl::OkStatus();
}

void ReplicaManager::RemoveStrayLogs(const MetadataImage& image,
                                     absl::Span<const Uuid> removed_topic_ids) {
  const absl::flat_hash_set<Uuid> removed(removed_topic_ids.begin(), removed_topic_ids.end());
  for (const LogRef& log : logs_->All()) {
    const TopicPartition& topic_partition = log->topic_partition();
    if (topic_partition.topic == kMetadataTopicName) continue;
    if (image.FindTopic(log->topic_id()) != nullptr) continue;
    if (!removed.contains(log->topic_id())) {
      LOG(WARNING) << topic_partition.ToString() << ": the metadata log knows no topic with id "
                   << log->topic_id() << "; its files are kept and not served";
      continue;
    }
    LOG(INFO) << topic_partition.ToString() << ": finishing an interrupted deletion";
    const absl::Status deleted = logs_->Delete(topic_partition);
    if (!deleted.ok()) LOG(ERROR) << deleted.message();
  }
}

void ReplicaManager::OnSettled(PartitionLog& log) {
  const TopicPartition& topic_partition = log.topic_partition();
  const PartitionRef partition = Find(topic_partition.topic, topic_partition.partition);
  if (partition && &partition->log() == &log && partition->AdvanceHighWatermark()) {
    WakeWaiters(*partition);
  }
}

void ReplicaManager::OnOffline(PartitionLog& log) {
  const TopicPartition& topic_partition = log.topic_partition();
  if (const PartitionRef partition = Find(topic_partition.topic, topic_partition.partition)) {
    WakeWaiters(*partition);
  }
}

void ReplicaManager::WakeWaiters(const Partition& partition) {
  produce_purgatory_.CheckAndComplete(partition.watch_key());
  fetch_purgatory_.CheckAndComplete(partition.watch_key());
}

std::vector<PartitionRef> ReplicaManager::All() const {
  std::vector<PartitionRef> all;
  for (const Shard& shard : shards_) {
    MutexLock lock(shard.mutex);
    for (const auto& [topic, partitions] : shard.topics) {
      for (const PartitionRef& partition : partitions) {
        if (partition) all.push_back(partition);
      }
    }
  }
  return all;
}

void ReplicaManager::CompleteDelayedFetches() {
  for (const PartitionRef& partition : All()) {
    fetch_purgatory_.CompleteAll(partition->watch_key());
  }
}

}  // namespace gyre
