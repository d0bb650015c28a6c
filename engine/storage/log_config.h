// The settings of one topic that its logs obey, under Kafka's names. A plain
// value: the broker resolves topic configs over its defaults and hands it down.
//
// Threads: immutable value.
#ifndef GYRE_ENGINE_STORAGE_LOG_CONFIG_H_
#define GYRE_ENGINE_STORAGE_LOG_CONFIG_H_

#include <cstdint>
#include <limits>

namespace gyre {

struct LogConfig {
  int64_t segment_bytes = int64_t{1} << 30;  // segment.bytes; at most 2^31 - 1
  int32_t max_message_bytes = 1048588;       // max.message.bytes
  // max.decompressed.message.bytes: what the records of a compressed batch may take.
  int32_t max_decompressed_message_bytes = std::numeric_limits<int32_t>::max();
  int32_t index_interval_bytes = 4096;  // index.interval.bytes
  bool log_append_time = false;         // message.timestamp.type=LogAppendTime
  bool is_compacted = false;            // cleanup.policy contains compact
  int64_t timestamp_before_max_ms = std::numeric_limits<int64_t>::max();
  int64_t timestamp_after_max_ms = 3'600'000;  // message.timestamp.after.max.ms

  bool operator==(const LogConfig&) const = default;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_LOG_CONFIG_H_
