#include "engine/broker/fetch_operation.h"

#include <algorithm>
#include <utility>

#include "engine/broker/broker_config.h"
#include "engine/broker/broker_metrics.h"
#include "engine/broker/replica_manager.h"

namespace gyre {

namespace {

constexpr int8_t kReadCommitted = 1;
constexpr int16_t kFirstVersionWithStorageError = 6;
constexpr int32_t kNoReplica = -1;

}  // namespace

FetchOperation::FetchOperation(const BrokerServices& services, RequestContext context,
                               const proto::FetchRequest& request)
    : DelayedOperation(std::max<int32_t>(request.max_wait_ms, 0)),
      services_(services),
      context_(std::move(context)),
      replica_id_(request.replica_id),
      read_committed_(request.isolation_level == kReadCommitted),
      max_wait_ms_(request.max_wait_ms),
      max_bytes_(std::clamp(request.max_bytes, 0, services.config.fetch_max_bytes)),
      min_bytes_(std::min<int64_t>(request.min_bytes, max_bytes_)) {
  topics_.resize(request.topics.size());
  for (size_t t = 0; t < topics_.size(); ++t) {
    const auto& from = request.topics[t];
    TopicState& topic = topics_[t];
    topic.name = std::string(from.topic);
    topic.partitions.resize(from.partitions.size());
    partition_count_ += topic.partitions.size();
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      PartitionState& state = topic.partitions[p];
      state.index = from.partitions[p].partition;
      state.current_leader_epoch = from.partitions[p].current_leader_epoch;
      state.last_fetched_epoch = from.partitions[p].last_fetched_epoch;
      state.fetch_offset = from.partitions[p].fetch_offset;
      state.max_bytes = std::max(from.partitions[p].partition_max_bytes, 0);
      state.partition = services.replicas.Find(topic.name, state.index);
      if (!state.partition) {
        state.why_missing = services.replicas.WhyMissing(topic.name, state.index);
      }
    }
  }
}

void FetchOperation::Start() {
  context_.ReleaseFrame();
  ReadAll();
  if (MustAnswer() || max_wait_ms_ <= 0 || partition_count_ == 0) return Answer();
  std::vector<WatchKey> keys;
  keys.reserve(partition_count_);
  for (const TopicState& topic : topics_) {
    for (const PartitionState& state : topic.partitions) {
      keys.push_back(state.partition->watch_key());
    }
  }
  services_.replicas.fetch_purgatory().TryCompleteElseWatch(RefPtr<DelayedOperation>(this), keys);
}

bool FetchOperation::MustAnswer() const { return must_tell_ || ready_bytes_ >= min_bytes_; }

void FetchOperation::ReadAll() {
  read_bytes_ = 0;
  ready_bytes_ = 0;
  must_tell_ = false;
  for (TopicState& topic : topics_) {
    for (PartitionState& state : topic.partitions) {
      // The first batch of the answer is given whole, whatever its size, so that
      // a client with a small limit is not stuck before a large batch.
      const bool first_data = read_bytes_ == 0;
      const int64_t max_bytes = std::min(state.max_bytes, max_bytes_ - read_bytes_);
      Read(state, std::max<int64_t>(max_bytes, 0), first_data);
      read_bytes_ += state.slice.size_bytes;
      ready_bytes_ += state.ready_bytes;
      must_tell_ |= state.error != ErrorCode::kNone || state.has_diverged || state.cannot_grow;
    }
  }
}

void FetchOperation::Read(PartitionState& state, int64_t max_bytes, bool min_one_batch) {
  state.error = ErrorCode::kNone;
  state.high_watermark = state.log_start_offset = -1;
  state.has_diverged = false;
  state.slice = FileSlice();
  state.ready_bytes = 0;
  state.cannot_grow = false;
  if (!state.partition) {
    state.error = state.why_missing;
    return;
  }
  const Partition& partition = *state.partition;
  state.error = partition.CheckUsable();
  if (state.error != ErrorCode::kNone) return;
  state.error = partition.CheckLeaderEpoch(state.current_leader_epoch);
  if (state.error != ErrorCode::kNone) return;
  // A follower that is not among the replicas: when it knows the leader's epoch
  // its metadata is ahead of ours.
  if (replica_id_ >= 0) {
    state.error = state.current_leader_epoch >= 0 ? ErrorCode::kUnknownLeaderEpoch
                                                  : ErrorCode::kNotLeaderOrFollower;
    return;
  }
  const PartitionLog& log = partition.log();
  // Taken before the read: a batch settled in between is the next fetch's.
  const int64_t high_watermark = partition.high_watermark();
  if (state.last_fetched_epoch >= 0) {
    const EpochEndOffset end = log.EndOffsetForEpoch(state.last_fetched_epoch);
    if (end.end_offset < 0) {
      state.error = ErrorCode::kOffsetOutOfRange;
      return;
    }
    if (end.leader_epoch < state.last_fetched_epoch || end.end_offset < state.fetch_offset) {
      state.has_diverged = true;
      state.diverging = end;
      state.high_watermark = high_watermark;
      state.log_start_offset = log.log_start_offset();
      return;
    }
  }
  ReadResult result = log.Read(state.fetch_offset, max_bytes, high_watermark, min_one_batch);
  state.error = result.error;
  if (state.error != ErrorCode::kNone) return;
  state.high_watermark = high_watermark;
  state.log_start_offset = result.log_start_offset;
  state.slice = std::move(result.slice);
  state.ready_bytes = state.slice.size_bytes;
  if (result.next_offset >= high_watermark) return;
  // More is there than was taken. Only whole batches are taken, so a limit is
  // rarely met exactly; a client whose limit is not above its min_bytes must not
  // wait for the difference.
  state.ready_bytes = std::max(state.ready_bytes, max_bytes);
  state.cannot_grow = result.reached_segment_end;
}

bool FetchOperation::HasNewData() const {
  for (const TopicState& topic : topics_) {
    for (const PartitionState& state : topic.partitions) {
      if (state.partition->CheckUsable() != ErrorCode::kNone) return true;
      if (state.partition->high_watermark() != state.high_watermark) return true;
    }
  }
  return false;
}

bool FetchOperation::TryComplete() {
  if (context_.abandoned()) return ForceComplete();
  // Most wake-ups are for one of many partitions; the reads are not free.
  if (!HasNewData()) return false;
  ReadAll();
  return MustAnswer() && ForceComplete();
}

void FetchOperation::OnComplete() {
  // At the deadline there may be some bytes, if not enough of them.
  if (!MustAnswer()) ReadAll();
  Answer();
}

void FetchOperation::Answer() {
  TopicMetrics& metrics = services_.metrics.topics;
  proto::FetchResponse response;
  std::vector<FileSlice> slices;
  slices.reserve(partition_count_);
  response.responses.resize(topics_.size());
  for (size_t t = 0; t < topics_.size(); ++t) {
    auto& topic = response.responses[t];
    topic.topic = topics_[t].name;
    topic.partitions.resize(topics_[t].partitions.size());
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      PartitionState& state = topics_[t].partitions[p];
      auto& partition = topic.partitions[p];
      partition.partition_index = state.index;
      partition.error_code = state.error;
      if (state.error == ErrorCode::kKafkaStorageError &&
          context_.version() < kFirstVersionWithStorageError) {
        partition.error_code = ErrorCode::kNotLeaderOrFollower;
      }
      partition.high_watermark = state.high_watermark;
      partition.last_stable_offset = state.high_watermark;
      partition.log_start_offset = state.log_start_offset;
      partition.preferred_read_replica = kNoReplica;
      if (!read_committed_) partition.aborted_transactions.reset();
      if (state.has_diverged) {
        partition.diverging_epoch.epoch = state.diverging.leader_epoch;
        partition.diverging_epoch.end_offset = state.diverging.end_offset;
      }
      metrics.fetch_requests.Increment();
      if (state.error != ErrorCode::kNone) metrics.failed_fetch_requests.Increment();
      if (state.slice.size_bytes == 0) continue;
      metrics.bytes_out.Add(state.slice.size_bytes);
      partition.records = wire::RecordsView::External(static_cast<size_t>(state.slice.size_bytes));
      slices.push_back(std::move(state.slice));
    }
  }
  context_.Reply(response, absl::MakeSpan(slices));
}

}  // namespace gyre
