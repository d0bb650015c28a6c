// What the cluster looks like at one point of the metadata log: topics with
// their partitions and configs, brokers, feature levels. An image never
// changes; MetadataDelta makes the next one from records, in log order, and
// nothing else makes one.
//
// Images share what did not change: a delta copies the shards of the topic
// tables it touches and nothing more, so one topic among ten thousand costs
// about a hundredth of a copy.
//
// Threads: immutable.
#ifndef GYRE_ENGINE_BROKER_METADATA_IMAGE_H_
#define GYRE_ENGINE_BROKER_METADATA_IMAGE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/uuid.h"
#include "engine/broker/topic_config.h"

namespace gyre {

namespace proto {
struct BrokerRegistrationChangeRecord;
struct PartitionChangeRecord;
struct PartitionRecord;
struct RegisterBrokerRecord;
}  // namespace proto

struct MetadataRecordFrame;

inline constexpr int32_t kNoLeader = -1;

struct PartitionImage {
  int32_t leader = kNoLeader;
  int32_t leader_epoch = -1;
  int32_t partition_epoch = -1;
  std::vector<int32_t> replicas;
  std::vector<int32_t> isr;
  std::vector<int32_t> removing_replicas;
  std::vector<int32_t> adding_replicas;
  std::vector<Uuid> directories;
  // Kafka's KIP-966: who may lead without being in sync. Only Kafka writes it.
  std::vector<int32_t> eligible_leader_replicas;
  std::vector<int32_t> last_known_elr;
  int8_t leader_recovery_state = 0;

  bool operator==(const PartitionImage&) const = default;
};

struct TopicImage {
  std::string name;
  Uuid id;
  // Index = partition number. An element without replicas has no record yet.
  std::vector<PartitionImage> partitions;
  TopicConfigOverrides configs;
};

struct BrokerEndpointImage {
  std::string name;
  std::string host;
  uint16_t port = 0;
  int16_t security_protocol = 0;
};

struct BrokerImage {
  int32_t id = -1;
  int64_t epoch = -1;
  Uuid incarnation_id;
  bool fenced = true;
  std::string rack;
  bool has_rack = false;
  std::vector<BrokerEndpointImage> endpoints;
};

class MetadataImage {
 public:
  static constexpr size_t kShardCount = 64;
  using TopicPtr = std::shared_ptr<const TopicImage>;

  MetadataImage();

  // Null when there is none.
  TopicPtr FindTopic(absl::string_view name) const;
  TopicPtr FindTopic(const Uuid& id) const;
  // The name of a topic that `name` collides with ('.' against '_'), itself
  // excepted; empty when there is none.
  std::string FindCollision(absl::string_view name) const;
  // Sorted by name.
  std::vector<TopicPtr> Topics() const;
  size_t topic_count() const { return topic_count_; }

  const std::map<int32_t, BrokerImage>& brokers() const { return brokers_; }
  const std::map<std::string, int16_t, std::less<>>& features() const { return features_; }
  // Configs of everything but topics: (resource type, resource name).
  const std::map<std::pair<int8_t, std::string>, TopicConfigOverrides>& other_configs() const {
    return other_configs_;
  }
  // One past the highest producer id that any block handed out; 0 = none yet.
  int64_t next_producer_id() const { return next_producer_id_; }

  // Of the last record applied; -1 before the first.
  int64_t offset() const { return offset_; }
  int32_t epoch() const { return epoch_; }

 private:
  friend class MetadataDelta;
  using NameShard = absl::flat_hash_map<std::string, TopicPtr>;
  using IdShard = absl::flat_hash_map<Uuid, TopicPtr>;
  // Collision key to the names that share it; only names with '.' or '_'.
  using CollisionShard = absl::flat_hash_map<std::string, std::vector<std::string>>;

  static size_t ShardOf(absl::string_view name);
  static size_t ShardOf(const Uuid& id);

  std::array<std::shared_ptr<const NameShard>, kShardCount> by_name_;
  std::array<std::shared_ptr<const IdShard>, kShardCount> by_id_;
  std::array<std::shared_ptr<const CollisionShard>, kShardCount> collisions_;
  size_t topic_count_ = 0;
  std::map<int32_t, BrokerImage> brokers_;
  std::map<std::string, int16_t, std::less<>> features_;
  std::map<std::pair<int8_t, std::string>, TopicConfigOverrides> other_configs_;
  int64_t next_producer_id_ = 0;
  int64_t offset_ = -1;
  int32_t epoch_ = 0;
};

// Records since an image, applied one by one; Finish() gives the image that
// includes them.
//
// Threads: owner any one.
// Owns: the base image and copies of the topics it changed.
class MetadataDelta {
 public:
  explicit MetadataDelta(std::shared_ptr<const MetadataImage> base);

  // `value` is a whole metadata record (frame and body, see metadata_record.h).
  // INVALID_ARGUMENT when it is malformed or names something that does not
  // exist, UNIMPLEMENTED when its type or version is newer than this program;
  // the delta is then not to be used further.
  absl::Status Apply(absl::string_view value);

  // Topics that exist now and were created or changed by the delta.
  std::vector<MetadataImage::TopicPtr> ChangedTopics() const;
  // Topics of the base image that the delta removed.
  const std::vector<MetadataImage::TopicPtr>& removed_topics() const { return removed_; }
  // Ids of those, and of topics that the delta both created and removed.
  const std::vector<Uuid>& removed_topic_ids() const { return removed_ids_; }

  // `offset` and `epoch` of the last record.
  std::shared_ptr<const MetadataImage> Finish(int64_t offset, int32_t epoch);

 private:
  // A copy that may be changed; null when there is no such topic.
  TopicImage* Mutable(const Uuid& id);
  MetadataImage::TopicPtr Find(absl::string_view name) const;

  absl::Status ApplyTopic(absl::string_view name, const Uuid& id);
  absl::Status RemoveTopic(const Uuid& id);
  absl::Status SetConfig(int8_t resource_type, absl::string_view resource, absl::string_view name,
                         const absl::string_view* value);
  absl::Status ApplyPartition(const proto::PartitionRecord& record);
  absl::Status ApplyPartitionChange(const proto::PartitionChangeRecord& record);
  absl::Status ApplyRegisterBroker(const proto::RegisterBrokerRecord& record);
  absl::Status ApplyBrokerChange(const proto::BrokerRegistrationChangeRecord& record);
  absl::Status SetFenced(int32_t broker_id, bool fenced);

  template <typename Record, typename Function>
  absl::Status DecodeAndApply(const MetadataRecordFrame& frame, Function apply);

  std::shared_ptr<const MetadataImage> base_;
  std::map<Uuid, std::shared_ptr<TopicImage>> changed_;
  std::vector<MetadataImage::TopicPtr> removed_;
  std::vector<Uuid> removed_ids_;
  // Everything that is not a topic; its topic tables stay those of the base.
  std::shared_ptr<MetadataImage> next_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_METADATA_IMAGE_H_
