#include "engine/broker/topic_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace gyre {

namespace {

bool IsLegalCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

const char* WhyTopicNameIsInvalid(absl::string_view name) {
  if (name.empty()) return "the empty string is not a topic name";
  if (name == "." || name == "..") return "a topic cannot be named '.' or '..'";
  if (name.size() > kMaxTopicNameLength) return "a topic name has at most 249 characters";
  if (!std::all_of(name.begin(), name.end(), IsLegalCharacter)) {
    return "a topic name has only ASCII letters, digits, '.', '_' and '-'";
  }
  return nullptr;
}

std::string TopicCollisionKey(absl::string_view name) {
  std::string key(name);
  std::replace(key.begin(), key.end(), '.', '_');
  return key;
}

bool IsInternalTopic(absl::string_view name) {
  return name == "__consumer_offsets" || name == "__transaction_state" ||
         name == "__share_group_state";
}

}  // namespace gyre
