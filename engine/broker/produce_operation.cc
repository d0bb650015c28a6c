#include "engine/broker/produce_operation.h"

#include <algorithm>
#include <utility>

#include "engine/broker/broker_metrics.h"
#include "engine/broker/replica_manager.h"

namespace gyre {

namespace {

constexpr int64_t kNoOffset = -1;

}  // namespace

ProduceOperation::ProduceOperation(const BrokerServices& services, RequestContext context,
                                   const proto::ProduceRequest& request)
    : DelayedOperation(std::max<int32_t>(request.timeout_ms, 0)),
      services_(services),
      context_(std::move(context)),
      acks_(request.acks) {}

void ProduceOperation::Prepare(const proto::ProduceRequest& request, ErrorCode request_error) {
  topics_.resize(request.topic_data.size());
  for (size_t t = 0; t < topics_.size(); ++t) {
    const auto& from = request.topic_data[t];
    TopicState& topic = topics_[t];
    topic.name = std::string(from.name);
    topic.partitions.resize(from.partition_data.size());
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      PartitionState& state = topic.partitions[p];
      state.index = from.partition_data[p].index;
      state.error = request_error;
      if (request_error != ErrorCode::kNone) continue;
      state.partition = services_.replicas.Find(topic.name, state.index);
      state.error = state.partition ? state.partition->CheckUsable()
                                    : services_.replicas.WhyMissing(topic.name, state.index);
      if (state.error != ErrorCode::kNone) continue;
      state.append.produce_version = context_.version();
      state.append.records = from.partition_data[p].records.bytes();
      state.append.leader_epoch = state.partition->leader_epoch();
      state.append.on_done = &OnAppended;
      state.append.context = this;
    }
  }
}

void ProduceOperation::Start(const proto::ProduceRequest& request, ErrorCode request_error) {
  // Held until the last append is done, whoever's that is.
  AddReference();
  Prepare(request, request_error);
  for (TopicState& topic : topics_) {
    for (PartitionState& state : topic.partitions) {
      if (state.error != ErrorCode::kNone) continue;
      unfinished_appends_.fetch_add(1, std::memory_order_relaxed);
      state.partition->log().Append(&state.append);
    }
  }
  FinishAppend();
}

void ProduceOperation::OnAppended(AppendRequest* append) {
  static_cast<ProduceOperation*>(append->context)->FinishAppend();
}

void ProduceOperation::FinishAppend() {
  if (unfinished_appends_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  AfterAppends();
  ReleaseReference();
}

void ProduceOperation::AfterAppends() {
  // The client's bytes are in the log; nothing needs them any more.
  for (TopicState& topic : topics_) {
    for (PartitionState& state : topic.partitions) {
      if (state.error == ErrorCode::kNone) state.error = state.append.error;
      CountAppend(state);
      state.append.records = absl::string_view();
    }
  }
  context_.ReleaseFrame();
  if (acks_ == kAcksAll) return AwaitSettled();
  Answer();
}

void ProduceOperation::CountAppend(const PartitionState& state) const {
  TopicMetrics& metrics = services_.metrics.topics;
  const auto bytes = static_cast<int64_t>(state.append.records.size());
  metrics.produce_requests.Increment();
  if (state.error == ErrorCode::kNone) {
    metrics.messages_in.Add(state.append.last_offset - state.append.base_offset + 1);
    metrics.bytes_in.Add(bytes);
    return;
  }
  metrics.failed_produce_requests.Increment();
  if (state.error == ErrorCode::kMessageTooLarge) metrics.bytes_rejected.Add(bytes);
}

void ProduceOperation::AwaitSettled() {
  std::vector<WatchKey> keys;
  for (TopicState& topic : topics_) {
    for (PartitionState& state : topic.partitions) {
      state.waiting = state.error == ErrorCode::kNone;
      if (state.waiting) keys.push_back(state.partition->watch_key());
    }
  }
  if (keys.empty()) return Answer();
  services_.replicas.produce_purgatory().TryCompleteElseWatch(RefPtr<DelayedOperation>(this), keys);
}

bool ProduceOperation::Settle(PartitionState& state) {
  if (!state.waiting) return true;
  if (state.partition->high_watermark() > state.append.last_offset) {
    state.waiting = false;
    return true;
  }
  state.error = state.partition->CheckUsable();
  if (state.error == ErrorCode::kNone) return false;
  state.waiting = false;
  return true;
}

bool ProduceOperation::TryComplete() {
  bool all_settled = true;
  for (TopicState& topic : topics_) {
    for (PartitionState& state : topic.partitions) all_settled &= Settle(state);
  }
  return all_settled && ForceComplete();
}

void ProduceOperation::OnComplete() {
  for (TopicState& topic : topics_) {
    for (PartitionState& state : topic.partitions) {
      if (!Settle(state)) state.error = ErrorCode::kRequestTimedOut;
    }
  }
  Answer();
}

void ProduceOperation::CountErrors() const {
  for (const TopicState& topic : topics_) {
    for (const PartitionState& state : topic.partitions) context_.CountError(state.error);
  }
}

bool ProduceOperation::HasError() const {
  for (const TopicState& topic : topics_) {
    for (const PartitionState& state : topic.partitions) {
      if (state.error != ErrorCode::kNone) return true;
    }
  }
  return false;
}

void ProduceOperation::Answer() {
  if (acks_ == kAcksNone) {
    // Closing is the only way to tell a client that expects no answer.
    if (!HasError()) return context_.ReplyNothing();
    CountErrors();
    return context_.Close("a produce request with acks=0 failed");
  }
  proto::ProduceResponse response;
  response.responses.resize(topics_.size());
  for (size_t t = 0; t < topics_.size(); ++t) {
    auto& topic = response.responses[t];
    topic.name = topics_[t].name;
    topic.partition_responses.resize(topics_[t].partitions.size());
    for (size_t p = 0; p < topic.partition_responses.size(); ++p) {
      const PartitionState& state = topics_[t].partitions[p];
      const AppendRequest& append = state.append;
      auto& partition = topic.partition_responses[p];
      partition.index = state.index;
      partition.error_code = state.error;
      partition.base_offset = kNoOffset;
      for (const RecordError& error : append.record_errors) {
        partition.record_errors.push_back(
            {.batch_index = error.batch_index,
             .batch_index_error_message = absl::string_view(error.message)});
      }
      if (!append.message.empty()) partition.error_message = absl::string_view(append.message);
      // A batch that was only too slow to settle is in the log, and says where.
      const bool appended =
          state.error == ErrorCode::kNone || state.error == ErrorCode::kRequestTimedOut;
      if (!appended) continue;
      partition.base_offset = append.base_offset;
      partition.log_append_time_ms = append.log_append_time_ms;
      partition.log_start_offset = append.log_start_offset;
    }
  }
  context_.Reply(response);
}

}  // namespace gyre
