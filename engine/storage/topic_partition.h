// A partition's name, and the directory that is named after it.
#ifndef GYRE_ENGINE_STORAGE_TOPIC_PARTITION_H_
#define GYRE_ENGINE_STORAGE_TOPIC_PARTITION_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace gyre {

struct TopicPartition {
  std::string topic;
  int32_t partition = 0;

  // "<topic>-<partition>", as in directory names and log lines.
  std::string ToString() const;
  // The inverse: the last '-' separates. Empty topic or a partition that is not
  // a plain non-negative number: none.
  static std::optional<TopicPartition> Parse(absl::string_view directory_name);

  bool operator==(const TopicPartition&) const = default;
  auto operator<=>(const TopicPartition&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const TopicPartition& value) {
    return H::combine(std::move(state), value.topic, value.partition);
  }
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_TOPIC_PARTITION_H_
