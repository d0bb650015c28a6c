#include "engine/broker/partition.h"

namespace gyre {

Partition::Partition(int32_t node_id, const Uuid& topic_id, LogRef log, int32_t leader_epoch)
    : node_id_(node_id),
      topic_id_(topic_id),
      log_(std::move(log)),
      leader_epoch_(leader_epoch),
      high_watermark_(log_->settled_offset()) {}

bool Partition::AdvanceHighWatermark() {
  const int64_t settled = log_->settled_offset();
  int64_t current = high_watermark_.load(std::memory_order_relaxed);
  while (settled > current) {
    // release: whoever sees the new watermark sees the bytes below it.
    if (high_watermark_.compare_exchange_weak(current, settled, std::memory_order_release,
                                              std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

ErrorCode Partition::CheckLeaderEpoch(int32_t current_leader_epoch) const {
  const int32_t ours = leader_epoch();
  if (current_leader_epoch < 0 || current_leader_epoch == ours) return ErrorCode::kNone;
  return current_leader_epoch < ours ? ErrorCode::kFencedLeaderEpoch
                                     : ErrorCode::kUnknownLeaderEpoch;
}

ErrorCode Partition::CheckUsable() const {
  if (deleted_.load(std::memory_order_acquire)) return ErrorCode::kUnknownTopicOrPartition;
  if (log_->is_offline()) return ErrorCode::kKafkaStorageError;
  return ErrorCode::kNone;
}

}  // namespace gyre
