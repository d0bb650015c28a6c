#include "engine/broker/handlers/metadata.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/broker/authorized_operations.h"
#include "engine/broker/broker_config.h"
#include "engine/broker/metadata_cache.h"
#include "engine/broker/metadata_controller.h"
#include "engine/broker/replica_manager.h"
#include "engine/broker/topic_name.h"
#include "proto/metadata.h"

namespace gyre {

namespace {

using proto::MetadataRequest;
using proto::MetadataResponse;
using TopicPtr = MetadataImage::TopicPtr;

// Older requests cannot say that a topic is not to be created, or name an id.
constexpr int16_t kFirstVersionWithCreationFlag = 4;
constexpr int16_t kFirstVersionWithTopicIds = 12;

// Builds the response; keeps the topics whose names it points to.
class Builder {
 public:
  Builder(const BrokerServices& services, const RequestContext& context,
          const MetadataRequest& request)
      : services_(services), request_(request), image_(services.metadata.Current()) {
    response_.brokers.push_back({.node_id = services.config.node_id,
                                 .host = context.session().listener->advertised_host,
                                 .port = context.session().listener->advertised_port});
    response_.cluster_id = absl::string_view(services.config.cluster_id);
    response_.controller_id = services.config.node_id;
    if (request.include_cluster_authorized_operations) {
      response_.cluster_authorized_operations = kAllClusterOperations;
    }
  }

  void AddAll() {
    for (TopicPtr& topic : image_->Topics()) Add(std::move(topic));
  }

  void AddByName(absl::string_view name, bool may_create) {
    if (TopicPtr topic = image_->FindTopic(name)) return Add(std::move(topic));
    auto& result = AddError(ErrorCode::kUnknownTopicOrPartition, name, Uuid::kZero);
    if (WhyTopicNameIsInvalid(name) != nullptr) {
      result.error_code = ErrorCode::kInvalidTopic;
    } else if (may_create && name != kMetadataTopicName) {
      to_create_.emplace_back().name = std::string(name);
    }
  }

  void AddById(const Uuid& id) {
    if (TopicPtr topic = image_->FindTopic(id)) return Add(std::move(topic));
    AddError(ErrorCode::kUnknownTopicId, std::nullopt, id);
  }

  MetadataResponse::Topic& AddError(ErrorCode error, std::optional<absl::string_view> name,
                                    const Uuid& id) {
    auto& result = response_.topics.emplace_back();
    result.error_code = error;
    result.name = name;
    result.topic_id = id;
    result.is_internal = name.has_value() && IsInternalTopic(*name);
    if (name.has_value() && request_.include_topic_authorized_operations) {
      result.topic_authorized_operations = kAllTopicOperations;
    }
    return result;
  }

  const MetadataResponse& response() const { return response_; }
  std::vector<NewTopic>& to_create() { return to_create_; }

 private:
  void Add(TopicPtr topic) {
    auto& result = response_.topics.emplace_back();
    result.name = absl::string_view(topic->name);
    result.topic_id = topic->id;
    result.is_internal = IsInternalTopic(topic->name);
    if (request_.include_topic_authorized_operations) {
      result.topic_authorized_operations = kAllTopicOperations;
    }
    result.partitions.reserve(topic->partitions.size());
    for (size_t i = 0; i < topic->partitions.size(); ++i) {
      AddPartition(*topic, static_cast<int32_t>(i), result);
    }
    topics_.push_back(std::move(topic));
  }

  void AddPartition(const TopicImage& topic, int32_t index, MetadataResponse::Topic& result) {
    const PartitionImage& partition = topic.partitions[static_cast<size_t>(index)];
    if (partition.replicas.empty()) return;  // a gap: no such partition
    auto& out = result.partitions.emplace_back();
    out.partition_index = index;
    out.leader_id = partition.leader;
    out.leader_epoch = partition.leader_epoch;
    out.replica_nodes = partition.replicas;
    out.isr_nodes = partition.isr;
    if (services_.replicas.IsOffline(topic.name, index)) {
      out.leader_id = kNoLeader;
      out.offline_replicas.push_back(services_.config.node_id);
    }
    if (out.leader_id == kNoLeader) out.error_code = ErrorCode::kLeaderNotAvailable;
  }

  const BrokerServices& services_;
  const MetadataRequest& request_;
  const std::shared_ptr<const MetadataImage> image_;
  std::vector<TopicPtr> topics_;
  std::vector<NewTopic> to_create_;
  MetadataResponse response_;
};

using Topics = std::vector<MetadataRequest::Topic>;

// Versions 10 and 11 have the id field but not its meaning, and no null name.
const char* WhyTopicIsRefused(const MetadataRequest::Topic& topic, int16_t version) {
  if (version >= kFirstVersionWithTopicIds) return nullptr;
  if (!topic.name.has_value()) return "null topic name";
  if (!topic.topic_id.is_zero()) return "topic id";
  return nullptr;
}

bool AnyRefused(const Topics& topics, int16_t version) {
  for (const MetadataRequest::Topic& topic : topics) {
    if (WhyTopicIsRefused(topic, version) != nullptr) return true;
  }
  return false;
}

void AddRequested(const BrokerServices& services, const RequestContext& context,
                  const Topics& topics, bool allow_creation, Builder& builder) {
  if (AnyRefused(topics, context.version())) {
    for (const MetadataRequest::Topic& topic : topics) {
      builder.AddError(ErrorCode::kInvalidRequest, topic.name.value_or(""), topic.topic_id);
    }
    return;
  }
  const bool may_create = services.config.auto_create_topics_enable &&
                          (context.version() < kFirstVersionWithCreationFlag || allow_creation);
  std::set<std::pair<absl::string_view, Uuid>> seen;
  for (const MetadataRequest::Topic& topic : topics) {
    if (!seen.insert({topic.name.value_or(""), topic.topic_id}).second) continue;
    if (!topic.topic_id.is_zero()) {
      builder.AddById(topic.topic_id);
    } else {
      builder.AddByName(topic.name.value_or(""), may_create);
    }
  }
}

}  // namespace

void HandleMetadata(const BrokerServices& services, RequestContext context) {
  MetadataRequest request;
  if (!context.Decode(request)) return;
  Builder builder(services, context, request);
  // Version 0 has no null: there an empty list asks for everything.
  const bool all =
      !request.topics.has_value() || (context.version() == 0 && request.topics->empty());
  if (all) {
    builder.AddAll();
  } else {
    AddRequested(services, context, *request.topics, request.allow_auto_topic_creation, builder);
  }
  context.Reply(builder.response());
  // Clients are told "unknown topic" and ask again; by then it is there.
  if (!builder.to_create().empty()) {
    services.controller->CreateTopics(std::move(builder.to_create()), false,
                                      [](const std::vector<NewTopicResult>&) {});
  }
}

}  // namespace gyre
