// The partitions on this broker: found by name in a sharded table on the produce
// and fetch paths, made and removed when the metadata image changes, and told by
// their logs when the high watermark may move.
//
// Threads: any; Apply one at a time. A shard's lock covers a lookup and nothing
// else.
// Owns: the partitions, together with whoever holds a PartitionRef, and the
// purgatories of their waiting requests.
// Borrows: the LogManager, from SetLogManager on; it outlives every request.
#ifndef GYRE_ENGINE_BROKER_REPLICA_MANAGER_H_
#define GYRE_ENGINE_BROKER_REPLICA_MANAGER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/broker/broker_config.h"
#include "engine/broker/metadata_image.h"
#include "engine/broker/partition.h"
#include "engine/concurrent/mutex.h"
#include "engine/purgatory/delayed_operation_purgatory.h"
#include "engine/storage/log_manager.h"
#include "engine/storage/partition_log.h"
#include "proto/wire/error_code.h"

namespace gyre {

class ReplicaManager : public LogListener {
 public:
  ReplicaManager(const BrokerConfig& config, DelayedOperationPurgatory& produce_purgatory,
                 DelayedOperationPurgatory& fetch_purgatory);
  ~ReplicaManager() override;

  // Before anything else; the manager opens with this object as its listener.
  void SetLogManager(LogManager* logs) { logs_ = logs; }

  // Null when this broker has no such partition.
  PartitionRef Find(absl::string_view topic, int32_t partition) const;
  // True when the partition is ours and its log is broken, or could not be made.
  bool IsOffline(absl::string_view topic, int32_t partition) const;
  // What to tell about a partition that Find does not know.
  ErrorCode WhyMissing(absl::string_view topic, int32_t partition) const;

  // Makes what is on this broker match the image: creates the logs of new
  // partitions, starts new leader epochs, applies configs, deletes what was
  // removed. Blocks on the disk. A partition that cannot be made is logged (with its
  // topic's others), told by the calls below, and answers KAFKA_STORAGE_ERROR until
  // RetryUnmade makes it; the others are not affected.
  void Apply(absl::Span<const MetadataImage::TopicPtr> removed,
             absl::Span<const MetadataImage::TopicPtr> changed);

  // Tries again what could not be made for want of descriptors, of space, …
  // Never at the same time as Apply.
  void RetryUnmade();

  // Not OK: which partitions of this topic, or of any, could not be made, and why, in
  // one line.
  absl::Status UnmadeOf(absl::string_view topic) const;
  absl::Status Unmade() const;
  int64_t unmade_count() const;

  // Deletes logs of topics that are known to be removed, which a crash left
  // behind, and reports (but keeps) those that no record explains. Forgets those
  // that are missing, where no topic misses them.
  void RemoveStrayLogs(const MetadataImage& image, absl::Span<const Uuid> removed_topic_ids);

  // Completes every waiting Fetch as if its time were up: before a drain, whose
  // deadline is better spent on requests that do something.
  void CompleteDelayedFetches();

  // Has every waiting Fetch look whether somebody still waits for it: its time may
  // be weeks, and what it holds is bounded.
  void CheckDelayedFetches();

  DelayedOperationPurgatory& produce_purgatory() { return produce_purgatory_; }
  DelayedOperationPurgatory& fetch_purgatory() { return fetch_purgatory_; }

  // --- LogListener.
  void OnSettled(PartitionLog& log) override;
  void OnOffline(PartitionLog& log) override;

 private:
  static constexpr size_t kShardCount = 64;
  // Index = partition number; null where this broker has none.
  using Partitions = std::vector<PartitionRef>;
  struct Shard {
    mutable Mutex mutex;
    absl::flat_hash_map<std::string, Partitions> topics ABSL_GUARDED_BY(mutex);
  };

  // Those of one topic that could not be made.
  struct UnmadePartitions {
    MetadataImage::TopicPtr topic;
    std::vector<int32_t> partitions;  // ascending
    std::string why;                  // of the first

    absl::Status Describe() const;
  };

  Shard& ShardOf(absl::string_view topic) const;
  void Remove(const TopicImage& topic);
  void Change(const MetadataImage::TopicPtr& topic);
  absl::Status ChangePartition(const TopicImage& topic, int32_t index, const LogConfig& config);
  absl::StatusOr<LogRef> OpenLog(const TopicPartition& topic_partition, const Uuid& topic_id,
                                 const LogConfig& config);
  void WakeWaiters(const Partition& partition);
  std::vector<PartitionRef> All() const;

  const BrokerConfig& config_;
  DelayedOperationPurgatory& produce_purgatory_;
  DelayedOperationPurgatory& fetch_purgatory_;
  LogManager* logs_ = nullptr;
  // Topics that were removed, with files that could not be. Touched by Apply and
  // RemoveStrayLogs only, which never run at the same time.
  absl::flat_hash_set<Uuid> undeleted_topic_ids_;
  // Topics with partitions that could not be made, by name.
  mutable Mutex unmade_mutex_;
  std::map<std::string, UnmadePartitions, std::less<>> unmade_ ABSL_GUARDED_BY(unmade_mutex_);
  mutable std::array<Shard, kShardCount> shards_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_REPLICA_MANAGER_H_
