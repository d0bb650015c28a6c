#include "engine/storage/topic_partition.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gyre {

std::string TopicPartition::ToString() const { return absl::StrCat(topic, "-", partition); }

std::optional<TopicPartition> TopicPartition::Parse(absl::string_view directory_name) {
  const size_t dash = directory_name.rfind('-');
  if (dash == absl::string_view::npos || dash == 0) return std::nullopt;
  const absl::string_view digits = directory_name.substr(dash + 1);
  TopicPartition result;
  for (const char c : digits) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
  }
  if (!absl::SimpleAtoi(digits, &result.partition)) return std::nullopt;
  result.topic = std::string(directory_name.substr(0, dash));
  // One name per directory: "t-01" is not "t-1".
  if (result.ToString() != directory_name) return std::nullopt;
  return result;
}

}  // namespace gyre
