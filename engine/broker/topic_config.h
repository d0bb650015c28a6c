// The configs a topic may carry: Kafka's names, types, defaults and legal
// values, and the typed form in which the rest of the broker reads them.
//
// A topic stores only what was set on it; everything else follows the broker's
// flags (`TopicConfigDefaults`), and after that the built-in default.
//
// Threads: any; immutable tables and values.
#ifndef GYRE_ENGINE_BROKER_TOPIC_CONFIG_H_
#define GYRE_ENGINE_BROKER_TOPIC_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gyre {

enum class ConfigType : uint8_t { kBool, kInt, kLong, kDouble, kString, kList };

struct TopicConfigKey {
  const char* name;
  ConfigType type;
  const char* default_value;
  // Inclusive; for kInt, kLong and kDouble.
  double min;
  double max;
  // The only legal values, comma-separated; for kString and kList. Null = any.
  const char* choices;
  // Known and honoured, but not listed to clients.
  bool hidden;
};

// Sorted by name.
absl::Span<const TopicConfigKey> TopicConfigKeys();
// Null when there is no such config.
const TopicConfigKey* FindTopicConfigKey(absl::string_view name);

// Name to value, as set on one topic.
using TopicConfigOverrides = std::map<std::string, std::string, std::less<>>;

// INVALID_ARGUMENT with a message that names the config and its legal values.
absl::Status ValidateTopicConfig(absl::string_view name, absl::string_view value);
// The same for what one config demands of another; each is legal by itself.
absl::Status ValidateTogether(const TopicConfigOverrides& configs);

// What the broker's flags say for topics that say nothing.
struct TopicConfigDefaults {
  int32_t max_message_bytes = 1048588;
  int64_t segment_bytes = 1073741824;
};

enum class CompressionTypeConfig : uint8_t {
  kProducer,
  kUncompressed,
  kGzip,
  kSnappy,
  kLz4,
  kZstd
};

// The effective values of one topic.
struct TopicConfig {
  int32_t max_message_bytes = 1048588;
  int32_t max_decompressed_message_bytes = 2147483639;
  int64_t segment_bytes = 1073741824;
  int32_t segment_index_bytes = 10485760;
  int32_t index_interval_bytes = 4096;
  int64_t segment_ms = 604800000;
  int64_t retention_bytes = -1;
  int64_t retention_ms = 604800000;
  int64_t delete_retention_ms = 86400000;
  int64_t file_delete_delay_ms = 60000;
  int64_t flush_messages = INT64_MAX;
  int64_t flush_ms = INT64_MAX;
  int64_t timestamp_before_max_ms = INT64_MAX;
  int64_t timestamp_after_max_ms = 3600000;
  int32_t min_insync_replicas = 1;
  bool cleanup_compact = false;
  bool cleanup_delete = true;
  bool log_append_time = false;
  CompressionTypeConfig compression = CompressionTypeConfig::kProducer;
};

// Values that ValidateTopicConfig would refuse are skipped (a metadata log that
// a newer broker wrote may hold them).
TopicConfig EffectiveTopicConfig(const TopicConfigOverrides& overrides,
                                 const TopicConfigDefaults& defaults);

// One line of a DescribeConfigs-like listing.
struct TopicConfigEntry {
  // The protocol's numbers for where a value comes from.
  enum Source : int8_t { kTopic = 1, kStaticBroker = 4, kDefault = 5 };
  std::string name;
  std::string value;
  Source source;
};

// Every listed config with its effective value, sorted by name.
std::vector<TopicConfigEntry> ListTopicConfig(const TopicConfigOverrides& overrides,
                                              const TopicConfigDefaults& defaults);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_TOPIC_CONFIG_H_
