#include "engine/broker/topic_planner.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/broker/metadata_record.h"
#include "engine/broker/topic_name.h"
#include "proto/config_record.h"
#include "proto/partition_record.h"
#include "proto/remove_topic_record.h"
#include "proto/topic_record.h"

namespace gyre {

namespace {

constexpr int8_t kTopicResource = 2;
constexpr int16_t kPartitionRecordVersion = 2;

bool Refuse(NewTopicResult& result, ErrorCode error, std::string message) {
  result.error = error;
  result.message = std::move(message);
  return false;
}

}  // namespace

Uuid RandomUuid(Random& random) {
  constexpr uint64_t kVersionMask = 0xf000, kVersion4 = 0x4000;
  constexpr uint64_t kVariantMask = uint64_t{3} << 62, kVariant = uint64_t{2} << 62;
  Uuid uuid;
  do {
    uuid.hi = (random.Next() & ~kVersionMask) | kVersion4;
    uuid.lo = (random.Next() & ~kVariantMask) | kVariant;
  } while (uuid.ToString().front() == '-');
  return uuid;
}

bool TopicPlanner::CheckName(const NewTopic& topic, NewTopicResult& result) const {
  if (const char* why = WhyTopicNameIsInvalid(topic.name)) {
    return Refuse(result, ErrorCode::kInvalidTopic, absl::StrCat("Topic name is invalid: ", why));
  }
  if (image_.FindTopic(topic.name) != nullptr) {
    return Refuse(result, ErrorCode::kTopicAlreadyExists,
                  absl::StrCat("Topic '", topic.name, "' already exists."));
  }
  std::string other = image_.FindCollision(topic.name);
  if (other.empty()) {
    const auto it = planned_collision_keys_.find(TopicCollisionKey(topic.name));
    if (it != planned_collision_keys_.end()) other = it->second;
  }
  if (!other.empty()) {
    return Refuse(result, ErrorCode::kInvalidTopic,
                  absl::StrCat("Topic '", topic.name, "' collides with existing topic: ", other));
  }
  return true;
}

bool TopicPlanner::CheckConfigs(const NewTopic& topic, TopicConfigOverrides& configs,
                                NewTopicResult& result) const {
  for (const auto& [name, value] : topic.configs) {
    if (!value.has_value()) {
      return Refuse(result, ErrorCode::kInvalidConfig,
                    absl::StrCat("Null value not supported for topic configs: ", name));
    }
    const absl::Status status = ValidateTopicConfig(name, *value);
    if (!status.ok()) {
      return Refuse(result, ErrorCode::kInvalidConfig, std::string(status.message()));
    }
    configs[name] = *value;
  }
  const absl::Status status = ValidateTogether(configs);
  if (!status.ok()) return Refuse(result, ErrorCode::kInvalidConfig, std::string(status.message()));
  return true;
}

bool TopicPlanner::PlaceManually(const NewTopic& topic, Placement& placement,
                                 NewTopicResult& result) const {
  if (topic.replication_factor != -1) {
    return Refuse(result, ErrorCode::kInvalidRequest,
                  "A manual partition assignment was specified, but replication factor was not "
                  "set to -1.");
  }
  if (topic.num_partitions != -1) {
    return Refuse(result, ErrorCode::kInvalidRequest,
                  "A manual partition assignment was specified, but numPartitions was not set to "
                  "-1.");
  }
  std::map<int32_t, std::vector<int32_t>> by_partition;
  for (const NewTopic::Assignment& assignment : topic.assignments) {
    if (!by_partition.emplace(assignment.partition, assignment.replicas).second) {
      return Refuse(result, ErrorCode::kInvalidReplicaAssignment,
                    absl::StrCat("Found multiple manual partition assignments for partition ",
                                 assignment.partition));
    }
  }
  for (const auto& [partition, replicas] : by_partition) {
    if (partition != static_cast<int32_t>(placement.size())) {
      return Refuse(result, ErrorCode::kInvalidReplicaAssignment,
                    "partitions should be a consecutive 0-based integer sequence");
    }
    if (replicas.empty()) {
      return Refuse(result, ErrorCode::kInvalidReplicaAssignment,
                    "The manual partition assignment includes an empty replica list.");
    }
    for (const int32_t replica : replicas) {
      if (replica == config_.node_id) continue;
      return Refuse(result, ErrorCode::kInvalidReplicaAssignment,
                    absl::StrCat("The manual partition assignment includes broker ", replica,
                                 ", but no such broker is registered."));
    }
    if (replicas.size() > 1) {
      return Refuse(result, ErrorCode::kInvalidReplicaAssignment,
                    absl::StrCat("The manual partition assignment includes the broker ",
                                 replicas.front(), " more than once."));
    }
    placement.push_back(replicas);
  }
  return true;
}

bool TopicPlanner::Place(const NewTopic& topic, Placement& placement,
                         NewTopicResult& result) const {
  if (!topic.assignments.empty()) return PlaceManually(topic, placement, result);
  const int32_t factor = topic.replication_factor == -1 ? config_.default_replication_factor
                                                        : topic.replication_factor;
  if (factor <= 0) {
    return Refuse(result, ErrorCode::kInvalidReplicationFactor,
                  "Replication factor must be larger than 0, or -1 to use the default value.");
  }
  const int32_t count = topic.num_partitions == -1 ? config_.num_partitions : topic.num_partitions;
  if (count <= 0) {
    return Refuse(result, ErrorCode::kInvalidPartitions,
                  "Number of partitions was set to an invalid non-positive value.");
  }
  if (factor > 1) {
    return Refuse(result, ErrorCode::kInvalidReplicationFactor,
                  absl::StrCat("Unable to replicate the partition ", factor,
                               " time(s): The target replication factor of ", factor,
                               " cannot be reached because only 1 broker(s) are registered."));
  }
  if (static_cast<size_t>(count) > kMaxRecords) {
    return Refuse(result, ErrorCode::kPolicyViolation,
                  "Excessively large number of partitions per request.");
  }
  placement.assign(static_cast<size_t>(count), {config_.node_id});
  return true;
}

std::vector<std::string> TopicPlanner::CreationRecords(absl::string_view name, const Uuid& id,
                                                       const TopicConfigOverrides& configs,
                                                       const Placement& placement) const {
  std::vector<std::string> records;
  records.reserve(1 + configs.size() + placement.size());
  proto::TopicRecord topic;
  topic.name = name;
  topic.topic_id = id;
  records.push_back(EncodeMetadataRecord(topic, 0));
  for (const auto& [key, value] : configs) {
    proto::ConfigRecord config;
    config.resource_type = kTopicResource;
    config.resource_name = name;
    config.name = key;
    config.value = absl::string_view(value);
    records.push_back(EncodeMetadataRecord(config, 0));
  }
  for (size_t i = 0; i < placement.size(); ++i) {
    proto::PartitionRecord partition;
    partition.partition_id = static_cast<int32_t>(i);
    partition.topic_id = id;
    partition.replicas = placement[i];
    partition.isr = placement[i];
    partition.leader = placement[i].front();
    partition.leader_epoch = 0;
    partition.partition_epoch = 0;
    partition.directories.assign(placement[i].size(), directory_id_);
    records.push_back(EncodeMetadataRecord(partition, kPartitionRecordVersion));
  }
  return records;
}

bool TopicPlanner::TryAddRecords(std::vector<std::string> records) {
  size_t bytes = record_bytes_;
  for (const std::string& record : records) bytes += record.size();
  if (records_.size() + records.size() > kMaxRecords || bytes > kMaxRecordBytes) return false;
  record_bytes_ = bytes;
  std::move(records.begin(), records.end(), std::back_inserter(records_));
  return true;
}

NewTopicResult TopicPlanner::Create(const NewTopic& topic) {
  NewTopicResult result;
  result.name = topic.name;
  TopicConfigOverrides configs;
  Placement placement;
  if (!CheckName(topic, result) || !CheckConfigs(topic, configs, result) ||
      !Place(topic, placement, result)) {
    return result;
  }
  const Uuid id = RandomUuid(random_);
  if (!TryAddRecords(CreationRecords(topic.name, id, configs, placement))) {
    Refuse(result, ErrorCode::kPolicyViolation,
           "Excessively large number of partitions per request.");
    return result;
  }
  planned_collision_keys_[TopicCollisionKey(topic.name)] = topic.name;
  result.id = id;
  result.num_partitions = static_cast<int32_t>(placement.size());
  result.replication_factor = static_cast<int16_t>(placement.front().size());
  result.configs = ListTopicConfig(configs, config_.topic_defaults);
  return result;
}

DeleteTopicResult TopicPlanner::Delete(const TopicSelector& selector) {
  DeleteTopicResult result;
  result.name = selector.name;
  result.id = selector.id;
  const MetadataImage::TopicPtr topic =
      selector.name.has_value() ? image_.FindTopic(*selector.name) : image_.FindTopic(selector.id);
  if (topic == nullptr) {
    const bool by_name = selector.name.has_value();
    result.error = by_name ? ErrorCode::kUnknownTopicOrPartition : ErrorCode::kUnknownTopicId;
    result.message = by_name ? "This server does not host this topic-partition."
                             : "This server does not host this topic ID.";
    return result;
  }
  if (!planned_deletions_.insert(topic->id).second) {
    result.error = ErrorCode::kInvalidRequest;
    result.message = "The provided topic name maps to an ID that was already supplied.";
    return result;
  }
  proto::RemoveTopicRecord record;
  record.topic_id = topic->id;
  if (!TryAddRecords({EncodeMetadataRecord(record, 0)})) {
    result.error = ErrorCode::kPolicyViolation;
    result.message = "Excessively large number of topics per request.";
    return result;
  }
  result.name = topic->name;
  result.id = topic->id;
  return result;
}

}  // namespace gyre
