// Everything between the flags and the first record.
#ifndef GYRE_TOOLS_LOAD_KAFKA_SETUP_H_
#define GYRE_TOOLS_LOAD_KAFKA_SETUP_H_

#include <atomic>

#include "absl/status/status.h"
#include "tools/load/kafka/client.h"
#include "tools/load/workload.h"

namespace gyre::load {

// Fills `shared`. Bounded by --timeout for each step; the message is one line.
absl::Status SetUpKafka(Part& part, const std::atomic<bool>& interrupted, KafkaShared* shared);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_SETUP_H_
