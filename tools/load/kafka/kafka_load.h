// One thread's producers and consumers: produce, consume and end-to-end.
#ifndef GYRE_TOOLS_LOAD_KAFKA_KAFKA_LOAD_H_
#define GYRE_TOOLS_LOAD_KAFKA_KAFKA_LOAD_H_

#include <memory>
#include <optional>
#include <vector>

#include "tools/load/kafka/client.h"
#include "tools/load/kafka/consumer.h"
#include "tools/load/kafka/producer.h"
#include "tools/load/workload.h"

namespace gyre::load {

class KafkaLoad final : public ThreadLoad {
 public:
  KafkaLoad(Part& part, KafkaShared& shared, int32_t thread)
      : part_(part), shared_(shared), thread_(thread) {}

  absl::Status Open(Connector& connector) override;
  bool ready() const override;
  absl::Status failure() const override;
  void Start(Recorder& recorder) override;
  int64_t Turn(int64_t now_ns) override;
  bool Done(int64_t now_ns) const override { return done_; }
  void LetGo() override;
  void Collect(PartResult* result) override;

  void OnConnected(ConnectionHandle connection) override;
  void OnFrame(ConnectionHandle connection, absl::string_view payload) override;
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override;

  struct IndexedProducer {
    int32_t index;
    std::unique_ptr<Producer> producer;
  };
  const std::vector<IndexedProducer>& producers() const { return producers_; }
  const std::vector<std::unique_ptr<Consumer>>& consumers() const { return consumers_; }

 private:
  void MakeProducers();
  void MakeConsumers(ConsumerMode mode);
  int64_t TurnProducers(int64_t now_ns);
  // The producer that takes the next record; nullptr: none has room.
  Producer* NextWithRoom();
  void UpdateDone(int64_t now_ns);
  bool ConsumersDone(int64_t now_ns) const;

  Part& part_;
  KafkaShared& shared_;
  const int32_t thread_;
  std::optional<KafkaClient> client_;
  Schedule schedule_;  // from Start on
  Recorder* recorder_ = nullptr;
  std::vector<IndexedProducer> producers_;
  std::vector<std::unique_ptr<Consumer>> consumers_;
  size_t next_producer_ = 0;
  bool writing_ = false;
  bool done_ = false;
  int64_t opened_ns_ = 0;
  absl::Status first_failure_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_KAFKA_LOAD_H_
