// The operations that change the cluster, asynchronous and with Kafka's
// meanings and errors. On one node they are carried out here (metadata_store.h);
// in a cluster they are forwarded to the active controller. Handlers know only
// this interface.
//
// Threads: any. `done` runs exactly once, possibly before the call returns, on
// a handler thread (or the caller's); what it reports is durable, and the
// metadata image and the partitions on this broker already show it.
#ifndef GYRE_ENGINE_BROKER_METADATA_CONTROLLER_H_
#define GYRE_ENGINE_BROKER_METADATA_CONTROLLER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "engine/base/uuid.h"
#include "engine/broker/topic_config.h"
#include "proto/wire/error_code.h"

namespace gyre {

struct NewTopic {
  struct Assignment {
    int32_t partition = 0;
    std::vector<int32_t> replicas;
  };
  std::string name;
  int32_t num_partitions = -1;      // -1: the broker's default
  int16_t replication_factor = -1;  // -1: the broker's default
  std::vector<Assignment> assignments;
  // A null value is refused; it is kept so that the refusal can name it.
  std::vector<std::pair<std::string, std::optional<std::string>>> configs;
};

struct NewTopicResult {
  std::string name;
  ErrorCode error = ErrorCode::kNone;
  std::string message;  // empty when ok
  // The rest means something when error is kNone; the id is zero when the
  // request only asked whether it would work.
  Uuid id;
  int32_t num_partitions = -1;
  int16_t replication_factor = -1;
  std::vector<TopicConfigEntry> configs;
};

// A topic by name or by id (the other one is null or zero).
struct TopicSelector {
  std::optional<std::string> name;
  Uuid id;
};

struct DeleteTopicResult {
  std::optional<std::string> name;
  Uuid id;
  ErrorCode error = ErrorCode::kNone;
  std::string message;
};

class MetadataController {
 public:
  using CreateTopicsDone = absl::AnyInvocable<void(std::vector<NewTopicResult>)>;
  using DeleteTopicsDone = absl::AnyInvocable<void(std::vector<DeleteTopicResult>)>;

  virtual ~MetadataController() = default;

  // One result per topic, in order; topics fail one by one. Precondition: names
  // differ. With `validate_only` nothing is changed.
  virtual void CreateTopics(std::vector<NewTopic> topics, bool validate_only,
                            CreateTopicsDone done) = 0;
  // One result per selector, in order.
  virtual void DeleteTopics(std::vector<TopicSelector> topics, DeleteTopicsDone done) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_METADATA_CONTROLLER_H_
