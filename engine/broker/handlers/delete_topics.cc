#include "engine/broker/handlers/delete_topics.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/broker/metadata_controller.h"
#include "proto/delete_topics.h"

namespace gyre {

namespace {

constexpr int16_t kFirstVersionWithIds = 6;

DeleteTopicResult Refused(const TopicSelector& topic, const char* message) {
  DeleteTopicResult result;
  result.name = topic.name;
  result.id = topic.id;
  result.error = ErrorCode::kInvalidRequest;
  result.message = message;
  return result;
}

std::vector<TopicSelector> Selectors(const proto::DeleteTopicsRequest& request, int16_t version) {
  std::vector<TopicSelector> selectors;
  if (version < kFirstVersionWithIds) {
    for (absl::string_view name : request.topic_names) {
      selectors.push_back({std::string(name), Uuid::kZero});
    }
    return selectors;
  }
  for (const auto& topic : request.topics) {
    TopicSelector& selector = selectors.emplace_back();
    if (topic.name.has_value()) selector.name = std::string(*topic.name);
    selector.id = topic.topic_id;
  }
  return selectors;
}

// Why a selector cannot be looked up, or null.
const char* WhyMalformed(const TopicSelector& topic) {
  if (topic.name.has_value() && !topic.id.is_zero()) {
    return "You may not specify both topic name and topic id.";
  }
  if (!topic.name.has_value() && topic.id.is_zero()) {
    return "Neither topic name nor id were specified.";
  }
  return nullptr;
}

void Reply(RequestContext& context, const std::vector<DeleteTopicResult>& refused,
           const std::vector<DeleteTopicResult>& results) {
  proto::DeleteTopicsResponse response;
  response.responses.reserve(refused.size() + results.size());
  for (const auto* list : {&refused, &results}) {
    for (const DeleteTopicResult& result : *list) {
      auto& topic = response.responses.emplace_back();
      topic.name.reset();
      if (result.name.has_value()) topic.name = absl::string_view(*result.name);
      topic.topic_id = result.id;
      topic.error_code = result.error;
      if (result.error != ErrorCode::kNone) topic.error_message = absl::string_view(result.message);
    }
  }
  context.Reply(response);
}

}  // namespace

void HandleDeleteTopics(const BrokerServices& services, RequestContext context) {
  proto::DeleteTopicsRequest request;
  if (!context.Decode(request)) return;
  const std::vector<TopicSelector> selectors = Selectors(request, context.version());
  context.ReleaseFrame();
  std::map<std::pair<std::optional<std::string>, Uuid>, int> occurrences;
  for (const TopicSelector& topic : selectors) ++occurrences[{topic.name, topic.id}];
  std::vector<DeleteTopicResult> refused;
  std::vector<TopicSelector> wanted;
  for (const TopicSelector& topic : selectors) {
    if (const char* why = WhyMalformed(topic)) {
      refused.push_back(Refused(topic, why));
      continue;
    }
    int& count = occurrences[{topic.name, topic.id}];
    if (count == 1) wanted.push_back(topic);
    if (count > 1) {
      refused.push_back(
          Refused(topic, topic.name.has_value() ? "Duplicate topic name." : "Duplicate topic id."));
      count = 0;  // one entry stands for all of them
    }
  }
  services.controller->DeleteTopics(std::move(wanted),
                                    [context = std::move(context), refused = std::move(refused)](
                                        const std::vector<DeleteTopicResult>& results) mutable {
                                      Reply(context, refused, results);
                                    });
}

}  // namespace gyre
