// One Fetch request: read now, and answer if that is enough or something is
// wrong; else wait in purgatory until the partitions together hold min_bytes or
// max_wait_ms have passed, and read again.
//
// Records are ranges of segment files and are never copied here. Readers see
// whole batches below the high watermark only.
//
// Threads: handoff between handlers.
// Owns: decoded values; the request's bytes are released at once.
#ifndef GYRE_ENGINE_BROKER_FETCH_OPERATION_H_
#define GYRE_ENGINE_BROKER_FETCH_OPERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/broker/broker_services.h"
#include "engine/broker/partition.h"
#include "engine/broker/request_context.h"
#include "engine/fs/file_slice.h"
#include "engine/purgatory/delayed_operation.h"
#include "engine/storage/partition_log.h"
#include "proto/fetch.h"

namespace gyre {

class FetchOperation final : public DelayedOperation {
 public:
  FetchOperation(const BrokerServices& services, RequestContext context,
                 const proto::FetchRequest& request);

  // Leads to the answer, now or later. Call once.
  void Start();

 private:
  struct PartitionState {
    // As asked.
    int32_t index = 0;
    int32_t current_leader_epoch = -1;
    int32_t last_fetched_epoch = -1;
    int64_t fetch_offset = 0;
    int64_t max_bytes = 0;
    PartitionRef partition;
    ErrorCode why_missing =
        ErrorCode::kUnknownTopicOrPartition;  // without partition  // null: not here
    // Of the latest read.
    ErrorCode error = ErrorCode::kNone;
    int64_t high_watermark = -1;
    int64_t log_start_offset = -1;
    EpochEndOffset diverging;
    bool has_diverged = false;
    FileSlice slice;
    // What the slice counts for against min_bytes.
    int64_t ready_bytes = 0;
    bool cannot_grow = false;
  };
  struct TopicState {
    std::string name;
    std::vector<PartitionState> partitions;
  };

  ~FetchOperation() override = default;
  bool TryComplete() override;
  void OnComplete() override;
  void OnDrop() override { context_.Close("the broker stops"); }

  void ReadAll();
  void Read(PartitionState& state, int64_t max_bytes, bool min_one_batch);
  bool HasNewData() const;
  bool MustAnswer() const;
  void Answer();

  const BrokerServices& services_;
  RequestContext context_;
  const int32_t replica_id_;
  const bool read_committed_;
  const int64_t max_wait_ms_;
  const int64_t max_bytes_;
  const int64_t min_bytes_;
  std::vector<TopicState> topics_;
  size_t partition_count_ = 0;
  // Of the latest read.
  int64_t read_bytes_ = 0;
  int64_t ready_bytes_ = 0;
  // An error, a log that diverged, or a slice that waiting cannot lengthen.
  bool must_tell_ = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_FETCH_OPERATION_H_
