#include "engine/broker/replica_manager.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/broker/log_settings.h"
#include "engine/broker/topic_name.h"
#include "glog/logging.h"

namespace gyre {

namespace {

bool HasReplica(const MetadataImage& image, const TopicPartition& topic_partition,
                int32_t node_id) {
  const MetadataImage::TopicPtr topic = image.FindTopic(topic_partition.topic);
  const size_t index = static_cast<size_t>(topic_partition.partition);
  return topic != nullptr && index < topic->partitions.size() &&
         absl::c_linear_search(topic->partitions[index].replicas, node_id);
}

}  // namespace

absl::Status ReplicaManager::UnmadePartitions::Describe() const {
  constexpr size_t kMaxNamed = 10;
  const size_t named = std::min(partitions.size(), kMaxNamed);
  return absl::UnavailableError(absl::StrCat(
      partitions.size(), " of ", topic->partitions.size(), " partitions of topic ", topic->name,
      " cannot be made (",
      absl::StrJoin(partitions.begin(), partitions.begin() + static_cast<ptrdiff_t>(named), ", "),
      named < partitions.size() ? ", ..." : "", "): ", why));
}

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
  if (found) return found->log().is_offline();
  return WhyMissing(topic, partition) == ErrorCode::kKafkaStorageError;
}

ErrorCode ReplicaManager::WhyMissing(absl::string_view topic, int32_t partition) const {
  MutexLock lock(unmade_mutex_);
  const auto it = unmade_.find(topic);
  const bool is_unmade =
      it != unmade_.end() && absl::c_binary_search(it->second.partitions, partition);
  return is_unmade ? ErrorCode::kKafkaStorageError : ErrorCode::kUnknownTopicOrPartition;
}

void ReplicaManager::Apply(absl::Span<const MetadataImage::TopicPtr> removed,
                           absl::Span<const MetadataImage::TopicPtr> changed) {
  for (const MetadataImage::TopicPtr& topic : removed) Remove(*topic);
  for (const MetadataImage::TopicPtr& topic : changed) Change(topic);
}

void ReplicaManager::RetryUnmade() {
  std::vector<MetadataImage::TopicPtr> topics;
  {
    MutexLock lock(unmade_mutex_);
    for (const auto& [name, unmade] : unmade_) topics.push_back(unmade.topic);
  }
  for (const MetadataImage::TopicPtr& topic : topics) Change(topic);
}

absl::Status ReplicaManager::UnmadeOf(absl::string_view topic) const {
  MutexLock lock(unmade_mutex_);
  const auto it = unmade_.find(topic);
  return it == unmade_.end() ? absl::OkStatus() : it->second.Describe();
}

absl::Status ReplicaManager::Unmade() const {
  MutexLock lock(unmade_mutex_);
  if (unmade_.empty()) return absl::OkStatus();
  const absl::Status first = unmade_.begin()->second.Describe();
  if (unmade_.size() == 1) return first;
  return absl::UnavailableError(
      absl::StrCat("partitions of ", unmade_.size(), " topics cannot be made; ", first.message()));
}

int64_t ReplicaManager::unmade_count() const {
  MutexLock lock(unmade_mutex_);
  int64_t count = 0;
  for (const auto& [name, unmade] : unmade_) {
    count += static_cast<int64_t>(unmade.partitions.size());
  }
  return count;
}

void ReplicaManager::Remove(const TopicImage& topic) {
  {
    MutexLock lock(unmade_mutex_);
    unmade_.erase(topic.name);
  }
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
    if (!deleted.ok()) {
      LOG(ERROR) << "deleting a partition: " << deleted.message();
      undeleted_topic_ids_.insert(topic.id);
    }
    WakeWaiters(*partition);
  }
}

void ReplicaManager::Change(const MetadataImage::TopicPtr& changed_topic) {
  const TopicImage& topic = *changed_topic;
  UnmadePartitions unmade{changed_topic, {}, ""};
  const LogConfig config = ToLogConfig(EffectiveTopicConfig(topic.configs, config_.topic_defaults));
  for (size_t i = 0; i < topic.partitions.size(); ++i) {
    if (!absl::c_linear_search(topic.partitions[i].replicas, config_.node_id)) continue;
    const absl::Status changed = ChangePartition(topic, static_cast<int32_t>(i), config);
    if (changed.ok()) continue;
    if (unmade.partitions.empty()) unmade.why = std::string(changed.message());
    unmade.partitions.push_back(static_cast<int32_t>(i));
  }
  MutexLock lock(unmade_mutex_);
  if (unmade.partitions.empty()) {
    unmade_.erase(topic.name);
    return;
  }
  UnmadePartitions& known = unmade_[topic.name];
  // It is tried again every few seconds: one line as long as nothing changes.
  if (known.partitions != unmade.partitions) {
    LOG(ERROR) << unmade.Describe().message() << "; tried again until it can";
  }
  known = std::move(unmade);
}

absl::StatusOr<LogRef> ReplicaManager::OpenLog(const TopicPartition& topic_partition,
                                               const Uuid& topic_id, const LogConfig& config) {
  absl::StatusOr<LogRef> log = logs_->Create(topic_partition, topic_id, config);
  if (!absl::IsAlreadyExists(log.status())) return log;
  // Only what is known to have been removed may go.
  const LogRef existing = logs_->Find(topic_partition);
  const bool is_removed =
      existing != nullptr && undeleted_topic_ids_.contains(existing->topic_id());
  const absl::Status gone =
      is_removed ? logs_->Delete(topic_partition) : logs_->SetAside(topic_partition);
  if (!gone.ok()) return gone;
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
  if (!log.is_offline() && log.latest_leader_epoch() > leader_epoch) {
    const absl::Status dropped = log.DropLeaderEpochsAbove(leader_epoch);
    if (!dropped.ok()) return dropped;
  }
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
    if (log->is_missing()) {
      // Of a topic that was removed, or moved away, there is nothing to miss.
      if (HasReplica(image, topic_partition, config_.node_id)) continue;
      const absl::Status forgotten = logs_->Delete(topic_partition);
      if (!forgotten.ok()) LOG(WARNING) << forgotten.message();
      continue;
    }
    if (image.FindTopic(log->topic_id()) != nullptr) continue;
    // Its id is lost, but not whose it is.
    if (log->topic_id().is_zero() && image.FindTopic(topic_partition.topic) != nullptr) continue;
    if (!removed.contains(log->topic_id())) {
      LOG(WARNING) << topic_partition.ToString() << ": the metadata log knows no topic with id "
                   << log->topic_id() << "; its files are kept and not served";
      continue;
    }
    LOG(INFO) << topic_partition.ToString() << ": finishing an interrupted deletion";
    const absl::Status deleted = logs_->Delete(topic_partition);
    if (!deleted.ok()) {
      LOG(ERROR) << deleted.message();
      undeleted_topic_ids_.insert(log->topic_id());
    }
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

void ReplicaManager::CheckDelayedFetches() {
  if (fetch_purgatory_.pending_count() == 0) return;
  for (const PartitionRef& partition : All()) {
    fetch_purgatory_.CheckAndComplete(partition->watch_key());
  }
}

void ReplicaManager::CompleteDelayedFetches() {
  for (const PartitionRef& partition : All()) {
    fetch_purgatory_.CompleteAll(partition->watch_key());
  }
}

}  // namespace gyre
