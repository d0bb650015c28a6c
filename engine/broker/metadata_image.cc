#include "engine/broker/metadata_image.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/broker/metadata_record.h"
#include "engine/broker/topic_name.h"
#include "proto/abort_transaction_record.h"
#include "proto/access_control_entry_record.h"
#include "proto/begin_transaction_record.h"
#include "proto/broker_registration_change_record.h"
#include "proto/clear_elr_record.h"
#include "proto/client_quota_record.h"
#include "proto/config_record.h"
#include "proto/delegation_token_record.h"
#include "proto/end_transaction_record.h"
#include "proto/feature_level_record.h"
#include "proto/fence_broker_record.h"
#include "proto/no_op_record.h"
#include "proto/partition_change_record.h"
#include "proto/partition_record.h"
#include "proto/producer_ids_record.h"
#include "proto/register_broker_record.h"
#include "proto/register_controller_record.h"
#include "proto/remove_access_control_entry_record.h"
#include "proto/remove_delegation_token_record.h"
#include "proto/remove_topic_record.h"
#include "proto/remove_user_scram_credential_record.h"
#include "proto/topic_record.h"
#include "proto/unfence_broker_record.h"
#include "proto/unregister_broker_record.h"
#include "proto/unregister_controller_record.h"
#include "proto/user_scram_credential_record.h"
#include "proto/wire/reader.h"
#include "proto/zk_migration_state_record.h"

namespace gyre {

namespace {

constexpr int8_t kTopicResource = 2;
// Leader and ISR fields of a change record that mean "as before".
constexpr int32_t kLeaderUnchanged = -2;
constexpr int8_t kRecoveryStateUnchanged = -1;
// A partition number that no controller gives out; bounds what a damaged record
// can make us allocate.
constexpr int32_t kMaxPartitionNumber = 1'000'000;

template <typename Record>
absl::StatusOr<Record> Decode(const MetadataRecordFrame& frame) {
  if (frame.version < Record::kMinVersion || frame.version > Record::kMaxVersion) {
    return absl::UnimplementedError(absl::StrCat("metadata record type ", frame.type, " version ",
                                                 frame.version, ": only up to ",
                                                 Record::kMaxVersion, " is known"));
  }
  wire::Reader reader(frame.body);
  Record record;
  record.Decode(reader, frame.version);
  if (!reader.ok() || reader.remaining() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata record type ", frame.type, ": malformed body"));
  }
  return record;
}

absl::Status UnknownTopic(const Uuid& id) {
  return absl::InvalidArgumentError(
      absl::StrCat("metadata record names topic id ", id.ToString(), ", which does not exist"));
}

bool MayCollide(absl::string_view name) {
  return absl::c_any_of(name, [](char c) { return c == '.' || c == '_'; });
}

template <typename Shard>
Shard& Copy(std::shared_ptr<const Shard>& shard, std::shared_ptr<Shard>& copy) {
  if (copy == nullptr) {
    copy = std::make_shared<Shard>(*shard);
    shard = copy;
  }
  return *copy;
}

}  // namespace

MetadataImage::MetadataImage() {
  by_name_.fill(std::make_shared<const NameShard>());
  by_id_.fill(std::make_shared<const IdShard>());
  collisions_.fill(std::make_shared<const CollisionShard>());
}

size_t MetadataImage::ShardOf(absl::string_view name) {
  return absl::Hash<absl::string_view>()(name) % kShardCount;
}

size_t MetadataImage::ShardOf(const Uuid& id) { return id.lo % kShardCount; }

MetadataImage::TopicPtr MetadataImage::FindTopic(absl::string_view name) const {
  const NameShard& shard = *by_name_[ShardOf(name)];
  const auto it = shard.find(name);
  return it == shard.end() ? nullptr : it->second;
}

MetadataImage::TopicPtr MetadataImage::FindTopic(const Uuid& id) const {
  const IdShard& shard = *by_id_[ShardOf(id)];
  const auto it = shard.find(id);
  return it == shard.end() ? nullptr : it->second;
}

std::string MetadataImage::FindCollision(absl::string_view name) const {
  if (!MayCollide(name)) return "";
  const std::string key = TopicCollisionKey(name);
  const CollisionShard& shard = *collisions_[ShardOf(absl::string_view(key))];
  const auto it = shard.find(key);
  if (it == shard.end()) return "";
  for (const std::string& other : it->second) {
    if (other != name) return other;
  }
  return "";
}

std::vector<MetadataImage::TopicPtr> MetadataImage::Topics() const {
  std::vector<TopicPtr> topics;
  topics.reserve(topic_count_);
  for (const auto& shard : by_name_) {
    for (const auto& [name, topic] : *shard) topics.push_back(topic);
  }
  absl::c_sort(topics, [](const TopicPtr& a, const TopicPtr& b) { return a->name < b->name; });
  return topics;
}

MetadataDelta::MetadataDelta(std::shared_ptr<const MetadataImage> base)
    : base_(std::move(base)), next_(std::make_shared<MetadataImage>(*base_)) {}

TopicImage* MetadataDelta::Mutable(const Uuid& id) {
  const auto it = changed_.find(id);
  if (it != changed_.end()) return it->second.get();
  const MetadataImage::TopicPtr topic = base_->FindTopic(id);
  const bool removed = absl::c_any_of(removed_, [&](const auto& gone) { return gone->id == id; });
  if (topic == nullptr || removed) return nullptr;
  return changed_.emplace(id, std::make_shared<TopicImage>(*topic)).first->second.get();
}

MetadataImage::TopicPtr MetadataDelta::Find(absl::string_view name) const {
  for (const auto& [id, topic] : changed_) {
    if (topic->name == name) return topic;
  }
  MetadataImage::TopicPtr topic = base_->FindTopic(name);
  const bool removed = absl::c_linear_search(removed_, topic);
  return removed ? nullptr : topic;
}

absl::Status MetadataDelta::ApplyTopic(absl::string_view name, const Uuid& id) {
  if (Find(name) != nullptr || Mutable(id) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata record creates topic ", name, ", which exists already"));
  }
  auto topic = std::make_shared<TopicImage>();
  topic->name = std::string(name);
  topic->id = id;
  changed_[id] = std::move(topic);
  return absl::OkStatus();
}

absl::Status MetadataDelta::RemoveTopic(const Uuid& id) {
  if (Mutable(id) == nullptr) return UnknownTopic(id);
  changed_.erase(id);
  removed_ids_.push_back(id);
  if (MetadataImage::TopicPtr topic = base_->FindTopic(id)) removed_.push_back(std::move(topic));
  return absl::OkStatus();
}

absl::Status MetadataDelta::SetConfig(int8_t resource_type, absl::string_view resource,
                                      absl::string_view name, const absl::string_view* value) {
  TopicConfigOverrides* configs = nullptr;
  if (resource_type == kTopicResource) {
    const MetadataImage::TopicPtr topic = Find(resource);
    // Kafka's snapshots may hold configs of topics that are gone.
    if (topic == nullptr) return absl::OkStatus();
    configs = &Mutable(topic->id)->configs;
  } else {
    configs = &next_->other_configs_[{resource_type, std::string(resource)}];
  }
  if (value == nullptr) {
    configs->erase(std::string(name));
  } else {
    (*configs)[std::string(name)] = std::string(*value);
  }
  return absl::OkStatus();
}

std::vector<MetadataImage::TopicPtr> MetadataDelta::ChangedTopics() const {
  std::vector<MetadataImage::TopicPtr> topics;
  topics.reserve(changed_.size());
  for (const auto& [id, topic] : changed_) topics.push_back(topic);
  return topics;
}

std::shared_ptr<const MetadataImage> MetadataDelta::Finish(int64_t offset, int32_t epoch) {
  std::array<std::shared_ptr<MetadataImage::NameShard>, MetadataImage::kShardCount> names;
  std::array<std::shared_ptr<MetadataImage::IdShard>, MetadataImage::kShardCount> ids;
  std::array<std::shared_ptr<MetadataImage::CollisionShard>, MetadataImage::kShardCount> collisions;
  MetadataImage& next = *next_;
  const auto collision_shard = [&](const std::string& key) -> MetadataImage::CollisionShard& {
    const size_t shard = MetadataImage::ShardOf(absl::string_view(key));
    return Copy(next.collisions_[shard], collisions[shard]);
  };
  for (const MetadataImage::TopicPtr& topic : removed_) {
    const size_t name_shard = MetadataImage::ShardOf(absl::string_view(topic->name));
    const size_t id_shard = MetadataImage::ShardOf(topic->id);
    Copy(next.by_name_[name_shard], names[name_shard]).erase(topic->name);
    Copy(next.by_id_[id_shard], ids[id_shard]).erase(topic->id);
    --next.topic_count_;
    if (!MayCollide(topic->name)) continue;
    const std::string key = TopicCollisionKey(topic->name);
    MetadataImage::CollisionShard& shard = collision_shard(key);
    std::vector<std::string>& sharing = shard[key];
    sharing.erase(std::remove(sharing.begin(), sharing.end(), topic->name), sharing.end());
    if (sharing.empty()) shard.erase(key);
  }
  for (auto& [id, topic] : changed_) {
    const size_t name_shard = MetadataImage::ShardOf(absl::string_view(topic->name));
    const size_t id_shard = MetadataImage::ShardOf(id);
    const bool is_new = Copy(next.by_name_[name_shard], names[name_shard])
                            .insert_or_assign(topic->name, topic)
                            .second;
    Copy(next.by_id_[id_shard], ids[id_shard]).insert_or_assign(id, topic);
    if (!is_new) continue;
    ++next.topic_count_;
    if (!MayCollide(topic->name)) continue;
    const std::string key = TopicCollisionKey(topic->name);
    collision_shard(key)[key].push_back(topic->name);
  }
  next.offset_ = offset;
  next.epoch_ = epoch;
  return std::move(next_);
}

absl::Status MetadataDelta::ApplyPartition(const proto::PartitionRecord& record) {
  TopicImage* topic = Mutable(record.topic_id);
  if (topic == nullptr) return UnknownTopic(record.topic_id);
  if (record.partition_id < 0 || record.partition_id > kMaxPartitionNumber) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata record for partition number ", record.partition_id));
  }
  const size_t index = static_cast<size_t>(record.partition_id);
  if (topic->partitions.size() <= index) topic->partitions.resize(index + 1);
  PartitionImage& partition = topic->partitions[index];
  partition.leader = record.leader;
  partition.leader_epoch = record.leader_epoch;
  partition.partition_epoch = record.partition_epoch;
  partition.replicas = record.replicas;
  partition.isr = record.isr;
  partition.removing_replicas = record.removing_replicas;
  partition.adding_replicas = record.adding_replicas;
  partition.directories = record.directories;
  partition.eligible_leader_replicas =
      record.eligible_leader_replicas.value_or(std::vector<int32_t>());
  partition.last_known_elr = record.last_known_elr.value_or(std::vector<int32_t>());
  partition.leader_recovery_state = record.leader_recovery_state;
  return absl::OkStatus();
}

absl::Status MetadataDelta::ApplyPartitionChange(const proto::PartitionChangeRecord& record) {
  TopicImage* topic = Mutable(record.topic_id);
  if (topic == nullptr) return UnknownTopic(record.topic_id);
  if (record.partition_id < 0 ||
      static_cast<size_t>(record.partition_id) >= topic->partitions.size()) {
    return absl::InvalidArgumentError(absl::StrCat("metadata record changes partition ",
                                                   topic->name, "-", record.partition_id,
                                                   ", which does not exist"));
  }
  PartitionImage& partition = topic->partitions[static_cast<size_t>(record.partition_id)];
  if (record.isr.has_value()) partition.isr = *record.isr;
  if (record.replicas.has_value()) partition.replicas = *record.replicas;
  if (record.removing_replicas.has_value()) partition.removing_replicas = *record.removing_replicas;
  if (record.adding_replicas.has_value()) partition.adding_replicas = *record.adding_replicas;
  if (record.directories.has_value()) partition.directories = *record.directories;
  if (record.eligible_leader_replicas.has_value()) {
    partition.eligible_leader_replicas = *record.eligible_leader_replicas;
  }
  if (record.last_known_elr.has_value()) partition.last_known_elr = *record.last_known_elr;
  if (record.leader_recovery_state != kRecoveryStateUnchanged) {
    partition.leader_recovery_state = record.leader_recovery_state;
  }
  // A named leader starts a new leader epoch, even when it is the one before.
  if (record.leader != kLeaderUnchanged) {
    partition.leader = record.leader;
    ++partition.leader_epoch;
  }
  ++partition.partition_epoch;
  return absl::OkStatus();
}

absl::Status MetadataDelta::ApplyRegisterBroker(const proto::RegisterBrokerRecord& record) {
  BrokerImage broker;
  broker.id = record.broker_id;
  broker.epoch = record.broker_epoch;
  broker.incarnation_id = record.incarnation_id;
  broker.fenced = record.fenced;
  broker.has_rack = record.rack.has_value();
  if (broker.has_rack) broker.rack = std::string(*record.rack);
  for (const auto& endpoint : record.end_points) {
    broker.endpoints.push_back({std::string(endpoint.name), std::string(endpoint.host),
                                endpoint.port, endpoint.security_protocol});
  }
  next_->brokers_[record.broker_id] = std::move(broker);
  return absl::OkStatus();
}

absl::Status MetadataDelta::ApplyBrokerChange(const proto::BrokerRegistrationChangeRecord& record) {
  const auto it = next_->brokers_.find(record.broker_id);
  if (it == next_->brokers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("metadata record changes broker ",
                                                   record.broker_id, ", which is not registered"));
  }
  if (record.fenced != 0) it->second.fenced = record.fenced > 0;
  return absl::OkStatus();
}

absl::Status MetadataDelta::SetFenced(int32_t broker_id, bool fenced) {
  const auto it = next_->brokers_.find(broker_id);
  if (it != next_->brokers_.end()) it->second.fenced = fenced;
  return absl::OkStatus();
}

template <typename Record, typename Function>
absl::Status MetadataDelta::DecodeAndApply(const MetadataRecordFrame& frame, Function apply) {
  absl::StatusOr<Record> record = Decode<Record>(frame);
  if (!record.ok()) return record.status();
  return apply(*record);
}

absl::Status MetadataDelta::Apply(absl::string_view value) {
  const absl::StatusOr<MetadataRecordFrame> parsed = ParseMetadataRecord(value);
  if (!parsed.ok()) return parsed.status();
  const MetadataRecordFrame& frame = *parsed;
  using namespace proto;  // NOLINT: the record names below
  switch (frame.type) {
    case RegisterBrokerRecord::kRecordType:
      return DecodeAndApply<RegisterBrokerRecord>(
          frame, [this](const auto& record) { return ApplyRegisterBroker(record); });
    case UnregisterBrokerRecord::kRecordType:
      return DecodeAndApply<UnregisterBrokerRecord>(frame, [this](const auto& record) {
        next_->brokers_.erase(record.broker_id);
        return absl::OkStatus();
      });
    case BrokerRegistrationChangeRecord::kRecordType:
      return DecodeAndApply<BrokerRegistrationChangeRecord>(
          frame, [this](const auto& record) { return ApplyBrokerChange(record); });
    case FenceBrokerRecord::kRecordType:
      return DecodeAndApply<FenceBrokerRecord>(
          frame, [this](const auto& record) { return SetFenced(record.id, true); });
    case UnfenceBrokerRecord::kRecordType:
      return DecodeAndApply<UnfenceBrokerRecord>(
          frame, [this](const auto& record) { return SetFenced(record.id, false); });
    case TopicRecord::kRecordType:
      return DecodeAndApply<TopicRecord>(
          frame, [this](const auto& record) { return ApplyTopic(record.name, record.topic_id); });
    case RemoveTopicRecord::kRecordType:
      return DecodeAndApply<RemoveTopicRecord>(
          frame, [this](const auto& record) { return RemoveTopic(record.topic_id); });
    case PartitionRecord::kRecordType:
      return DecodeAndApply<PartitionRecord>(
          frame, [this](const auto& record) { return ApplyPartition(record); });
    case PartitionChangeRecord::kRecordType:
      return DecodeAndApply<PartitionChangeRecord>(
          frame, [this](const auto& record) { return ApplyPartitionChange(record); });
    case ConfigRecord::kRecordType:
      return DecodeAndApply<ConfigRecord>(frame, [this](const auto& record) {
        return SetConfig(record.resource_type, record.resource_name, record.name,
                         record.value.has_value() ? &*record.value : nullptr);
      });
    case FeatureLevelRecord::kRecordType:
      return DecodeAndApply<FeatureLevelRecord>(frame, [this](const auto& record) {
        if (record.feature_level == 0) {
          next_->features_.erase(std::string(record.name));
        } else {
          next_->features_[std::string(record.name)] = record.feature_level;
        }
        return absl::OkStatus();
      });
    case ProducerIdsRecord::kRecordType:
      return DecodeAndApply<ProducerIdsRecord>(frame, [this](const auto& record) {
        next_->next_producer_id_ = record.next_producer_id;
        return absl::OkStatus();
      });
    // Known, and of no consequence to what a broker of this kind serves.
    case NoOpRecord::kRecordType:
    case RegisterControllerRecord::kRecordType:
    case UnregisterControllerRecord::kRecordType:
    case ClearElrRecord::kRecordType:
    case ZkMigrationStateRecord::kRecordType:
    case ClientQuotaRecord::kRecordType:
    case AccessControlEntryRecord::kRecordType:
    case RemoveAccessControlEntryRecord::kRecordType:
    case UserScramCredentialRecord::kRecordType:
    case RemoveUserScramCredentialRecord::kRecordType:
    case DelegationTokenRecord::kRecordType:
    case RemoveDelegationTokenRecord::kRecordType:
    // Transactions are the replayer's: it decides what reaches a delta.
    case BeginTransactionRecord::kRecordType:
    case EndTransactionRecord::kRecordType:
    case AbortTransactionRecord::kRecordType:
      return absl::OkStatus();
    default:
      return absl::UnimplementedError(
          absl::StrCat("metadata record type ", frame.type, " is not known"));
  }
}

}  // namespace gyre
