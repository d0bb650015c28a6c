// Decides what a change of topics comes to: per topic an outcome with Kafka's
// error, and for those that succeed the metadata records that carry it out. No
// thread, no disk: an image in, records out.
//
// Threads: owner any one.
// Borrows: the image, the config and the random source.
#ifndef GYRE_ENGINE_BROKER_TOPIC_PLANNER_H_
#define GYRE_ENGINE_BROKER_TOPIC_PLANNER_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/random.h"
#include "engine/base/uuid.h"
#include "engine/broker/broker_config.h"
#include "engine/broker/metadata_controller.h"
#include "engine/broker/metadata_image.h"

namespace gyre {

// A random (version 4) id that text forms can start a command-line argument
// with: its first character is not '-'.
Uuid RandomUuid(Random& random);

class TopicPlanner {
 public:
  // One operation is one batch, which Kafka's readers accept up to these.
  static constexpr size_t kMaxRecords = 10'000;
  static constexpr size_t kMaxRecordBytes = size_t{8} << 20;

  TopicPlanner(const BrokerConfig& config, const Uuid& directory_id, const MetadataImage& image,
               Random& random)
      : config_(config), directory_id_(directory_id), image_(image), random_(random) {}

  // Precondition: names differ between calls. An error leaves no records.
  NewTopicResult Create(const NewTopic& topic);
  DeleteTopicResult Delete(const TopicSelector& topic);

  // The frames of the records, for one batch.
  std::vector<std::string>& records() { return records_; }

 private:
  // Replicas per partition.
  using Placement = std::vector<std::vector<int32_t>>;

  bool CheckName(const NewTopic& topic, NewTopicResult& result) const;
  bool CheckConfigs(const NewTopic& topic, TopicConfigOverrides& configs,
                    NewTopicResult& result) const;
  bool Place(const NewTopic& topic, Placement& placement, NewTopicResult& result) const;
  bool PlaceManually(const NewTopic& topic, Placement& placement, NewTopicResult& result) const;
  std::vector<std::string> CreationRecords(absl::string_view name, const Uuid& id,
                                           const TopicConfigOverrides& configs,
                                           const Placement& placement) const;
  // False when the batch would grow beyond its limits.
  bool TryAddRecords(std::vector<std::string> records);

  const BrokerConfig& config_;
  const Uuid directory_id_;
  const MetadataImage& image_;
  Random& random_;
  std::vector<std::string> records_;
  size_t record_bytes_ = 0;
  // Of the topics planned so far.
  std::map<std::string, std::string> planned_collision_keys_;
  std::set<Uuid> planned_deletions_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_TOPIC_PLANNER_H_
