// Which names a topic may have: 1 to 249 characters of [a-zA-Z0-9._-], neither
// "." nor "..". A topic becomes a directory and a metric, which is where the
// limits come from.
//
// Threads: any.
#ifndef GYRE_ENGINE_BROKER_TOPIC_NAME_H_
#define GYRE_ENGINE_BROKER_TOPIC_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gyre {

inline constexpr size_t kMaxTopicNameLength = 249;

// Null when `name` is legal, else why not (static storage).
const char* WhyTopicNameIsInvalid(absl::string_view name);

// '.' and '_' are the same character in a metric's name, so two topics that
// differ only there may not exist side by side. Equal keys collide.
std::string TopicCollisionKey(absl::string_view name);

// Topics that hold the broker's own state; clients see them marked.
bool IsInternalTopic(absl::string_view name);

// The metadata log's topic, which is not a topic to clients.
inline constexpr absl::string_view kMetadataTopicName = "__cluster_metadata";

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_TOPIC_NAME_H_
