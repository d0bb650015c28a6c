// One partition that this broker leads: its log, the leader epoch under which it
// writes, and how far readers may see. Replicas are kept by id with what each
// has; today there is one, this broker, and the high watermark is what its disk
// has settled (the durable offset in --log_flush=group, else the log end).
//
// Threads: any.
// Owns: a reference to the log.
// Invariant: high_watermark() never falls while the partition is held, and never
// passes the log's settled offset.
#ifndef GYRE_ENGINE_BROKER_PARTITION_H_
#define GYRE_ENGINE_BROKER_PARTITION_H_

#include <atomic>
#include <cstdint>

#include "engine/base/ref_ptr.h"
#include "engine/base/uuid.h"
#include "engine/purgatory/delayed_operation.h"
#include "engine/storage/log_manager.h"
#include "engine/storage/partition_log.h"
#include "engine/storage/topic_partition.h"
#include "proto/wire/error_code.h"

namespace gyre {

class Partition final : public RefCounted {
 public:
  Partition(int32_t node_id, const Uuid& topic_id, LogRef log, int32_t leader_epoch);

  const TopicPartition& topic_partition() const { return log_->topic_partition(); }
  const Uuid& topic_id() const { return topic_id_; }
  PartitionLog& log() const { return *log_; }
  int32_t leader_id() const { return node_id_; }
  // What requests wait on until something happens to this partition.
  WatchKey watch_key() const { return {kWatchKind, reinterpret_cast<uintptr_t>(this)}; }

  int32_t leader_epoch() const { return leader_epoch_.load(std::memory_order_acquire); }
  // Precondition: the log has started `epoch` (PartitionLog::StartLeaderEpoch).
  void SetLeaderEpoch(int32_t epoch) { leader_epoch_.store(epoch, std::memory_order_release); }

  int64_t high_watermark() const { return high_watermark_.load(std::memory_order_acquire); }
  // Without transactions nothing keeps readers of committed records back.
  int64_t last_stable_offset() const { return high_watermark(); }
  // Takes over what the log has settled. True when the high watermark rose.
  bool AdvanceHighWatermark();

  // kNone, kFencedLeaderEpoch when the client's epoch is older than ours,
  // kUnknownLeaderEpoch when it is newer; -1 is not checked.
  ErrorCode CheckLeaderEpoch(int32_t current_leader_epoch) const;

  // Whether requests may still use the partition: kNone, kKafkaStorageError when
  // its log is offline, kUnknownTopicOrPartition once it was deleted.
  ErrorCode CheckUsable() const;
  void MarkDeleted() { deleted_.store(true, std::memory_order_release); }

 private:
  static constexpr uint32_t kWatchKind = 1;

  ~Partition() override = default;

  const int32_t node_id_;
  const Uuid topic_id_;
  const LogRef log_;
  std::atomic<int32_t> leader_epoch_;
  std::atomic<int64_t> high_watermark_;
  std::atomic<bool> deleted_{false};
};

using PartitionRef = RefPtr<Partition>;

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_PARTITION_H_
