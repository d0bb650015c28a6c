#include "engine/broker/handlers/create_topics.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/broker/metadata_controller.h"
#include "engine/broker/topic_name.h"
#include "proto/create_topics.h"

namespace gyre {

namespace {

NewTopic ToNewTopic(const proto::CreateTopicsRequest::Topic& topic) {
  NewTopic result;
  result.name = std::string(topic.name);
  result.num_partitions = topic.num_partitions;
  result.replication_factor = topic.replication_factor;
  for (const auto& assignment : topic.assignments) {
    result.assignments.push_back({assignment.partition_index, assignment.broker_ids});
  }
  for (const auto& config : topic.configs) {
    std::optional<std::string> value;
    if (config.value.has_value()) value = std::string(*config.value);
    result.configs.emplace_back(std::string(config.name), std::move(value));
  }
  return result;
}

NewTopicResult Refused(absl::string_view name, const char* message) {
  NewTopicResult result;
  result.name = std::string(name);
  result.error = ErrorCode::kInvalidRequest;
  result.message = message;
  return result;
}

void AddTopic(const NewTopicResult& result, proto::CreateTopicsResponse& response) {
  auto& topic = response.topics.emplace_back();
  topic.name = result.name;
  topic.error_code = result.error;
  topic.error_message.reset();
  if (result.error != ErrorCode::kNone) {
    topic.error_message = result.message;
    return;
  }
  topic.topic_id = result.id;
  topic.num_partitions = result.num_partitions;
  topic.replication_factor = result.replication_factor;
  auto& configs = topic.configs.emplace();
  for (const TopicConfigEntry& config : result.configs) {
    configs.push_back({.name = config.name,
                       .value = absl::string_view(config.value),
                       .config_source = static_cast<int8_t>(config.source)});
  }
}

void Reply(RequestContext& context, const std::vector<NewTopicResult>& refused,
           const std::vector<NewTopicResult>& results) {
  proto::CreateTopicsResponse response;
  response.topics.reserve(refused.size() + results.size());
  for (const NewTopicResult& result : refused) AddTopic(result, response);
  for (const NewTopicResult& result : results) AddTopic(result, response);
  context.Reply(response);
}

}  // namespace

void HandleCreateTopics(const BrokerServices& services, RequestContext context) {
  proto::CreateTopicsRequest request;
  if (!context.Decode(request)) return;
  std::map<absl::string_view, int> occurrences;
  for (const auto& topic : request.topics) ++occurrences[topic.name];
  std::vector<NewTopicResult> refused;
  std::vector<NewTopic> topics;
  for (const auto& [name, count] : occurrences) {
    if (count > 1) refused.push_back(Refused(name, "Duplicate topic name."));
  }
  for (const auto& topic : request.topics) {
    if (occurrences[topic.name] > 1) continue;
    if (topic.name == kMetadataTopicName) {
      refused.push_back(
          Refused(topic.name, "Creation of internal topic __cluster_metadata is prohibited."));
      continue;
    }
    topics.push_back(ToNewTopic(topic));
  }
  const bool validate_only = request.validate_only;
  context.ReleaseFrame();
  services.controller->CreateTopics(std::move(topics), validate_only,
                                    [context = std::move(context), refused = std::move(refused)](
                                        const std::vector<NewTopicResult>& results) mutable {
                                      Reply(context, refused, results);
                                    });
}

}  // namespace gyre
