// One Produce request from its append to its answer. acks=0 and acks=1 are
// answered when every partition's batch is written; acks=all waits in purgatory
// until every partition's high watermark has passed its batch, or timeout_ms,
// after which the unsettled ones say REQUEST_TIMED_OUT and keep their data.
//
// Batches of an idempotent producer are accepted as those of any other: as
// Kafka does for a producer id that it holds no state for.
//
// Threads: handoff between handlers: the starter, then the writer of the last
// batch, then whoever runs the purgatory's turn.
// Owns: decoded values; the request's bytes only until the last append is done.
#ifndef GYRE_ENGINE_BROKER_PRODUCE_OPERATION_H_
#define GYRE_ENGINE_BROKER_PRODUCE_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/broker/broker_services.h"
#include "engine/broker/partition.h"
#include "engine/broker/request_context.h"
#include "engine/purgatory/delayed_operation.h"
#include "engine/storage/append_request.h"
#include "proto/produce.h"

namespace gyre {

inline constexpr int16_t kAcksNone = 0;
inline constexpr int16_t kAcksAll = -1;

class ProduceOperation final : public DelayedOperation {
 public:
  ProduceOperation(const BrokerServices& services, RequestContext context,
                   const proto::ProduceRequest& request);

  // Appends every batch, or, with an error, tells it to every partition and
  // appends none. Returns when all batches are in their queues. Call once.
  void Start(const proto::ProduceRequest& request, ErrorCode request_error);

 private:
  struct PartitionState {
    int32_t index = 0;
    PartitionRef partition;  // null: not here
    ErrorCode error = ErrorCode::kNone;
    bool waiting = false;  // appended, not settled yet
    AppendRequest append;
  };
  struct TopicState {
    std::string name;
    std::vector<PartitionState> partitions;
  };

  ~ProduceOperation() override = default;
  bool TryComplete() override;
  void OnComplete() override;
  void OnDrop() override { context_.Close("the broker stops"); }

  void Prepare(const proto::ProduceRequest& request, ErrorCode request_error);
  static void OnAppended(AppendRequest* append);
  void FinishAppend();
  void AfterAppends();
  void CountAppend(const PartitionState& state) const;
  void AwaitSettled();
  // True when the partition's outcome is known.
  bool Settle(PartitionState& state);
  void Answer();
  bool HasError() const;
  void CountErrors() const;

  const BrokerServices& services_;
  RequestContext context_;
  const int16_t acks_;
  std::vector<TopicState> topics_;
  // Appends that are not done, and one for the starter. Whoever takes it to
  // zero goes on; acq_rel, so that it sees every append's outcome.
  std::atomic<int32_t> unfinished_appends_{1};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_PRODUCE_OPERATION_H_
