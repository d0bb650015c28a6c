#include "engine/broker/topic_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace gyre {

namespace {

constexpr double kInt32Max = std::numeric_limits<int32_t>::max();
// Rounded up to 2^63: only ever an upper bound that no int64 exceeds.
constexpr double kInt64Max = static_cast<double>(std::numeric_limits<int64_t>::max());
constexpr double kAny = -std::numeric_limits<double>::infinity();
constexpr char kLongMax[] = "9223372036854775807";

constexpr TopicConfigKey Bool(const char* name, const char* value) {
  return {name, ConfigType::kBool, value, 0, 0, nullptr, false};
}
constexpr TopicConfigKey Int(const char* name, const char* value, double min,
                             double max = kInt32Max, bool hidden = false) {
  return {name, ConfigType::kInt, value, min, max, nullptr, hidden};
}
constexpr TopicConfigKey Long(const char* name, const char* value, double min) {
  return {name, ConfigType::kLong, value, min, kInt64Max, nullptr, false};
}
constexpr TopicConfigKey String(const char* name, const char* value, const char* choices) {
  return {name, ConfigType::kString, value, 0, 0, choices, false};
}
constexpr TopicConfigKey List(const char* name, const char* value, const char* choices) {
  return {name, ConfigType::kList, value, 0, 0, choices, false};
}

constexpr TopicConfigKey kKeys[] = {
    List("cleanup.policy", "delete", "compact,delete"),
    Int("compression.gzip.level", "-1", -1, 9),
    Int("compression.lz4.level", "9", 1, 17),
    String("compression.type", "producer", "uncompressed,zstd,lz4,snappy,gzip,producer"),
    Int("compression.zstd.level", "3", -131072, 22),
    Long("delete.retention.ms", "86400000", 0),
    Bool("errors.deadletterqueue.group.enable", "false"),
    Long("file.delete.delay.ms", "60000", 0),
    Long("flush.messages", kLongMax, 1),
    Long("flush.ms", kLongMax, 0),
    List("follower.replication.throttled.replicas", "", nullptr),
    Int("index.interval.bytes", "4096", 0),
    Int("internal.segment.bytes", "", 14, kInt32Max, true),
    List("leader.replication.throttled.replicas", "", nullptr),
    Long("local.retention.bytes", "-2", -2),
    Long("local.retention.ms", "-2", -2),
    Long("max.compaction.lag.ms", kLongMax, 1),
    Int("max.decompressed.message.bytes", "2147483639", 1, 2147483639),
    Int("max.message.bytes", "1048588", 0),
    Long("message.timestamp.after.max.ms", "3600000", 0),
    Long("message.timestamp.before.max.ms", kLongMax, 0),
    String("message.timestamp.type", "CreateTime", "CreateTime,LogAppendTime"),
    {"min.cleanable.dirty.ratio", ConfigType::kDouble, "0.5", 0, 1, nullptr, false},
    Long("min.compaction.lag.ms", "0", 0),
    Int("min.insync.replicas", "1", 1),
    Bool("preallocate", "false"),
    Long("remote.copy.lag.bytes", "-1", -1),
    Long("remote.copy.lag.ms", "0", -1),
    Bool("remote.log.copy.disable", "false"),
    Bool("remote.log.delete.on.disable", "false"),
    Bool("remote.storage.enable", "false"),
    Long("retention.bytes", "-1", kAny),
    Long("retention.ms", "604800000", -1),
    Int("segment.bytes", "1073741824", 1048576),
    Int("segment.index.bytes", "10485760", 4),
    Long("segment.jitter.ms", "0", 0),
    Long("segment.ms", "604800000", 1),
    Bool("unclean.leader.election.enable", "false"),
};

std::string LegalRange(const TopicConfigKey& key) {
  const bool has_min = key.min != kAny;
  const bool has_max = key.max < (key.type == ConfigType::kInt ? kInt32Max : kInt64Max);
  if (has_min && has_max) return absl::StrFormat("from %.15g to %.15g", key.min, key.max);
  if (has_min) return absl::StrFormat("at least %.15g", key.min);
  return "any";
}

absl::Status Refuse(const TopicConfigKey& key, absl::string_view value, absl::string_view legal) {
  return absl::InvalidArgumentError(absl::StrCat("Invalid value ", value, " for configuration ",
                                                 key.name, ": Value must be ", legal));
}

absl::Status ValidateNumber(const TopicConfigKey& key, absl::string_view value) {
  double number = 0;
  bool parsed = false;
  if (key.type == ConfigType::kDouble) {
    parsed = absl::SimpleAtod(value, &number) && std::isfinite(number);
  } else if (key.type == ConfigType::kInt) {
    int32_t integer = 0;
    parsed = absl::SimpleAtoi(value, &integer);
    number = integer;
  } else {
    int64_t integer = 0;
    parsed = absl::SimpleAtoi(value, &integer);
    number = static_cast<double>(integer);
  }
  if (!parsed) {
    const char* noun = key.type == ConfigType::kDouble ? "a number"
                       : key.type == ConfigType::kInt  ? "a 32-bit integer"
                                                       : "a 64-bit integer";
    return Refuse(key, value, absl::StrCat(noun, " (", LegalRange(key), ")"));
  }
  if (number < key.min || number > key.max) return Refuse(key, value, LegalRange(key));
  return absl::OkStatus();
}

std::vector<absl::string_view> SplitList(absl::string_view value) {
  std::vector<absl::string_view> items = absl::StrSplit(value, ',', absl::SkipWhitespace());
  for (absl::string_view& item : items) item = absl::StripAsciiWhitespace(item);
  return items;
}

// "*" alone, or partition:broker pairs.
bool IsReplicaList(absl::string_view value) {
  const std::vector<absl::string_view> items = SplitList(value);
  if (items.size() == 1 && items[0] == "*") return true;
  return absl::c_all_of(items, [](absl::string_view item) {
    const std::vector<absl::string_view> ids = absl::StrSplit(item, ':');
    return ids.size() == 2 && absl::c_all_of(ids, [](absl::string_view id) {
             return !id.empty() && absl::c_all_of(id, absl::ascii_isdigit);
           });
  });
}

// What the table of ranges and choices cannot say; null when nothing is wrong.
const char* WhyRefusedByName(absl::string_view name, absl::string_view value) {
  if (name == "compression.gzip.level" && value == "0") return "between 1 and 9 or equal to -1";
  if (name == "remote.storage.enable" && absl::EqualsIgnoreCase(value, "true")) {
    return "false: this broker has no tiered storage";
  }
  if (absl::EndsWith(name, ".replication.throttled.replicas") && !IsReplicaList(value)) {
    return "* or a list of partition:broker";
  }
  return nullptr;
}

bool IsChoice(const TopicConfigKey& key, absl::string_view value) {
  return key.choices == nullptr || absl::c_linear_search(SplitList(key.choices), value);
}

absl::Status Validate(const TopicConfigKey& key, absl::string_view raw_value) {
  const absl::string_view value = absl::StripAsciiWhitespace(raw_value);
  switch (key.type) {
    case ConfigType::kBool:
      if (absl::EqualsIgnoreCase(value, "true") || absl::EqualsIgnoreCase(value, "false")) {
        return absl::OkStatus();
      }
      return Refuse(key, value, "true or false");
    case ConfigType::kInt:
    case ConfigType::kLong:
    case ConfigType::kDouble:
      return ValidateNumber(key, value);
    case ConfigType::kString:
      if (IsChoice(key, value)) return absl::OkStatus();
      return Refuse(key, value, absl::StrCat("one of ", key.choices));
    case ConfigType::kList: {
      const std::vector<absl::string_view> items = SplitList(value);
      for (absl::string_view item : items) {
        if (!IsChoice(key, item)) return Refuse(key, value, absl::StrCat("some of ", key.choices));
      }
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

// Reads one override into `to`; leaves it alone when it is not set or not legal.
class Overrides {
 public:
  explicit Overrides(const TopicConfigOverrides& values) : values_(values) {}

  std::optional<absl::string_view> Find(absl::string_view name) const {
    const auto it = values_.find(name);
    if (it == values_.end() || !ValidateTopicConfig(name, it->second).ok()) return std::nullopt;
    return absl::StripAsciiWhitespace(it->second);
  }

  template <typename Integer>
  void Read(absl::string_view name, Integer& to) const {
    const std::optional<absl::string_view> text = Find(name);
    Integer value = 0;
    if (text.has_value() && absl::SimpleAtoi(*text, &value)) to = value;
  }

 private:
  const TopicConfigOverrides& values_;
};

CompressionTypeConfig ParseCompression(absl::string_view value) {
  if (value == "uncompressed") return CompressionTypeConfig::kUncompressed;
  if (value == "gzip") return CompressionTypeConfig::kGzip;
  if (value == "snappy") return CompressionTypeConfig::kSnappy;
  if (value == "lz4") return CompressionTypeConfig::kLz4;
  if (value == "zstd") return CompressionTypeConfig::kZstd;
  return CompressionTypeConfig::kProducer;
}

// The value the broker's flags give, when they differ from the built-in one.
std::string BrokerDefault(const TopicConfigKey& key, const TopicConfigDefaults& defaults) {
  if (absl::string_view(key.name) == "max.message.bytes") {
    return absl::StrCat(defaults.max_message_bytes);
  }
  if (absl::string_view(key.name) == "segment.bytes") return absl::StrCat(defaults.segment_bytes);
  return key.default_value;
}

}  // namespace

absl::Span<const TopicConfigKey> TopicConfigKeys() { return kKeys; }

const TopicConfigKey* FindTopicConfigKey(absl::string_view name) {
  const auto* it = std::lower_bound(
      std::begin(kKeys), std::end(kKeys), name,
      [](const TopicConfigKey& key, absl::string_view wanted) { return key.name < wanted; });
  return it != std::end(kKeys) && it->name == name ? it : nullptr;
}

absl::Status ValidateTopicConfig(absl::string_view name, absl::string_view value) {
  const TopicConfigKey* key = FindTopicConfigKey(name);
  if (key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("Unknown topic config name: ", name));
  }
  if (const char* legal = WhyRefusedByName(name, absl::StripAsciiWhitespace(value))) {
    return Refuse(*key, value, legal);
  }
  return Validate(*key, value);
}

absl::Status ValidateTogether(const TopicConfigOverrides& configs) {
  int64_t min_lag_ms = 0;
  int64_t max_lag_ms = std::numeric_limits<int64_t>::max();
  const Overrides overrides(configs);
  overrides.Read("min.compaction.lag.ms", min_lag_ms);
  overrides.Read("max.compaction.lag.ms", max_lag_ms);
  if (min_lag_ms <= max_lag_ms) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("conflict topic config setting min.compaction.lag.ms (", min_lag_ms,
                   ") > max.compaction.lag.ms (", max_lag_ms, ")"));
}

TopicConfig EffectiveTopicConfig(const TopicConfigOverrides& values,
                                 const TopicConfigDefaults& defaults) {
  const Overrides overrides(values);
  TopicConfig config;
  config.max_message_bytes = defaults.max_message_bytes;
  config.segment_bytes = defaults.segment_bytes;
  overrides.Read("max.message.bytes", config.max_message_bytes);
  overrides.Read("max.decompressed.message.bytes", config.max_decompressed_message_bytes);
  overrides.Read("segment.bytes", config.segment_bytes);
  overrides.Read("internal.segment.bytes", config.segment_bytes);
  overrides.Read("segment.index.bytes", config.segment_index_bytes);
  overrides.Read("index.interval.bytes", config.index_interval_bytes);
  overrides.Read("segment.ms", config.segment_ms);
  overrides.Read("retention.bytes", config.retention_bytes);
  overrides.Read("retention.ms", config.retention_ms);
  overrides.Read("delete.retention.ms", config.delete_retention_ms);
  overrides.Read("file.delete.delay.ms", config.file_delete_delay_ms);
  overrides.Read("flush.messages", config.flush_messages);
  overrides.Read("flush.ms", config.flush_ms);
  overrides.Read("message.timestamp.before.max.ms", config.timestamp_before_max_ms);
  overrides.Read("message.timestamp.after.max.ms", config.timestamp_after_max_ms);
  overrides.Read("min.insync.replicas", config.min_insync_replicas);
  if (const auto policy = overrides.Find("cleanup.policy")) {
    const std::vector<absl::string_view> items = SplitList(*policy);
    config.cleanup_compact = absl::c_linear_search(items, "compact");
    config.cleanup_delete = absl::c_linear_search(items, "delete");
  }
  if (const auto type = overrides.Find("message.timestamp.type")) {
    config.log_append_time = *type == "LogAppendTime";
  }
  if (const auto type = overrides.Find("compression.type")) {
    config.compression = ParseCompression(*type);
  }
  return config;
}

std::vector<TopicConfigEntry> ListTopicConfig(const TopicConfigOverrides& overrides,
                                              const TopicConfigDefaults& defaults) {
  std::vector<TopicConfigEntry> entries;
  entries.reserve(std::size(kKeys));
  for (const TopicConfigKey& key : kKeys) {
    if (key.hidden) continue;
    const auto it = overrides.find(absl::string_view(key.name));
    if (it != overrides.end()) {
      entries.push_back({key.name, it->second, TopicConfigEntry::kTopic});
      continue;
    }
    std::string value = BrokerDefault(key, defaults);
    const bool built_in = value == key.default_value;
    entries.push_back({key.name, std::move(value),
                       built_in ? TopicConfigEntry::kDefault : TopicConfigEntry::kStaticBroker});
  }
  return entries;
}

}  // namespace gyre
