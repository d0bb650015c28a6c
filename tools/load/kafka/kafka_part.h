// A part that talks to Kafka: setting it up, its threads' loads, and the sum of what they
// know when all is over.
//
// Threads: the conductor's; MakeLoad's results belong to their workers.
#ifndef GYRE_TOOLS_LOAD_KAFKA_KAFKA_PART_H_
#define GYRE_TOOLS_LOAD_KAFKA_KAFKA_PART_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/load/kafka/client.h"
#include "tools/load/workload.h"

namespace gyre::load {

class Consumer;
class KafkaLoad;

class KafkaPart {
 public:
  // Finds the brokers, agrees on versions, finds or makes the topic, and asks for what
  // the workload needs. One line says what is in the way.
  static absl::StatusOr<std::unique_ptr<KafkaPart>> Prepare(Part& part,
                                                            const std::atomic<bool>& interrupted);

  std::unique_ptr<ThreadLoad> MakeLoad(int32_t thread);

  // After every worker's end and Collect: reads back what was produced, unless the run
  // was interrupted, and settles the checks.
  void Settle(const std::atomic<bool>& interrupted, PartResult* result);

 private:
  explicit KafkaPart(Part& part) : part_(part) {}

  void ReadBack(const std::atomic<bool>& interrupted, PartResult* result);
  void SettleStreams(const std::vector<const Consumer*>& consumers, PartResult* result) const;

  Part& part_;
  KafkaShared shared_;
  std::vector<KafkaLoad*> loads_;  // owned by the workers, which outlive Settle
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_KAFKA_PART_H_
