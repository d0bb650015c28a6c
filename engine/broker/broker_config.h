// The broker's own settings, as its flags gave them.
//
// Threads: immutable value.
#ifndef GYRE_ENGINE_BROKER_BROKER_CONFIG_H_
#define GYRE_ENGINE_BROKER_BROKER_CONFIG_H_

#include <cstdint>
#include <string>

#include "engine/broker/topic_config.h"

namespace gyre {

struct BrokerConfig {
  int32_t node_id = 1;
  std::string cluster_id;  // as in the data directory's meta.properties
  int32_t num_partitions = 1;
  int16_t default_replication_factor = 1;
  bool auto_create_topics_enable = true;
  // The most bytes of records in one Fetch response (Kafka's fetch.max.bytes),
  // the first batch excepted.
  int32_t fetch_max_bytes = 57671680;
  TopicConfigDefaults topic_defaults;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_BROKER_CONFIG_H_
