// From a topic's configs to the settings its logs obey.
#ifndef GYRE_ENGINE_BROKER_LOG_SETTINGS_H_
#define GYRE_ENGINE_BROKER_LOG_SETTINGS_H_

#include "engine/broker/topic_config.h"
#include "engine/storage/log_config.h"

namespace gyre {

inline LogConfig ToLogConfig(const TopicConfig& topic) {
  LogConfig config;
  config.segment_bytes = topic.segment_bytes;
  config.max_message_bytes = topic.max_message_bytes;
  config.max_decompressed_message_bytes = topic.max_decompressed_message_bytes;
  config.index_interval_bytes = topic.index_interval_bytes;
  config.log_append_time = topic.log_append_time;
  config.is_compacted = topic.cleanup_compact;
  config.timestamp_before_max_ms = topic.timestamp_before_max_ms;
  config.timestamp_after_max_ms = topic.timestamp_after_max_ms;
  return config;
}

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_LOG_SETTINGS_H_
