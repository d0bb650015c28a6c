// The controller of a broker that has no other: it validates changes of the
// cluster, appends Kafka's own KRaft records for each as one batch to the
// `__cluster_metadata-0` log, and when the batch is durable applies it, in log
// order, to the partitions of this broker and to the metadata image; only then
// is the caller told.
//
//   validate against the tentative image (every batch appended so far)
//     -> append -> durable -> apply: partitions, image, `done`
//
// Nothing waits: the thread that finds nobody appending appends what is queued,
// log-io says when it is durable, a handler thread applies.
//
// Start-up is the exception: Open, Register and Close block, and run on one
// thread.
//
// Threads: CreateTopics and DeleteTopics any; OnSettled and OnOffline log-io or
// the appending thread.
// Owns: the operations in progress.
// Borrows: log, cache, replica manager, lane, clock; they outlive it.
// Invariant: images are published in log order; after an append or a sync failed
// nothing more is accepted, since what is on the disk is no longer known.
#ifndef GYRE_ENGINE_BROKER_METADATA_STORE_H_
#define GYRE_ENGINE_BROKER_METADATA_STORE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/base/uuid.h"
#include "engine/broker/broker_config.h"
#include "engine/broker/metadata_cache.h"
#include "engine/broker/metadata_controller.h"
#include "engine/broker/metadata_image.h"
#include "engine/broker/metadata_replayer.h"
#include "engine/broker/replica_manager.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file_system.h"
#include "engine/storage/append_request.h"
#include "engine/storage/partition_log.h"

namespace gyre {

struct MetadataStoreOptions {
  const BrokerConfig* config = nullptr;
  const Clock* clock = nullptr;
  Random* random = nullptr;  // for topic ids and incarnations; used under a lock
  MetadataCache* cache = nullptr;
  ReplicaManager* replicas = nullptr;
  ContinuationLane* lane = nullptr;
  FileSystem* file_system = nullptr;
  Uuid directory_id;
  // Partitions get a new leader epoch: records that were acknowledged under the
  // old one may be gone.
  bool unclean_start = false;
};

class MetadataStore : public MetadataController {
 public:
  // The metadata log's topic id, Kafka's.
  static constexpr Uuid kTopicId{0, 1};

  explicit MetadataStore(const MetadataStoreOptions& options);
  ~MetadataStore() override;

  // Replays `log` (held until Close), writes what a start writes: LeaderChange
  // under the next epoch, on the first start the feature levels, new leader epochs
  // after an unclean stop and for partitions that nobody leads. Returns when that
  // is durable and applied.
  absl::Status Open(LogRef log);

  // Announces this broker life: RegisterController, RegisterBroker, unfenced.
  // `endpoints` are where clients find it. Returns when durable.
  absl::Status Register(std::vector<BrokerEndpointImage> endpoints);

  // The record of a clean stop (the broker is fenced); durable on return. No
  // operation may be running. Every operation after it is refused.
  absl::Status Close();

  // Of this life's RegisterBroker record; -1 before Register.
  int64_t broker_epoch() const { return broker_epoch_; }

  // Gives partitions that could not be made another chance; blocks on the disk.
  void RetryUnmadePartitions();

  // MetadataController.
  void CreateTopics(std::vector<NewTopic> topics, bool validate_only,
                    CreateTopicsDone done) override;
  void DeleteTopics(std::vector<TopicSelector> topics, DeleteTopicsDone done) override;

  // From the log's listener.
  void OnSettled();
  void OnOffline();

 private:
  // A batch on its way: appended, then durable, then applied.
  struct Batch {
    AppendRequest append;
    std::string bytes;
    MetadataStore* store = nullptr;
    std::shared_ptr<const MetadataImage> image;  // with the batch applied
    std::vector<MetadataImage::TopicPtr> removed;
    std::vector<MetadataImage::TopicPtr> changed;
    // `failed`: the batch may or may not be on the disk.
    absl::AnyInvocable<void(bool failed)> done;
    // Under mutex_. Until append_done the batch is the log's.
    bool append_done = false;
    int64_t end_offset = -1;  // once it was written
  };
  struct ApplyContinuation : Continuation {
    MetadataStore* store = nullptr;
  };

  // Adds a batch of records (frames) after all others. Precondition: they are
  // valid against tentative_. `done` may be null.
  void Enqueue(const std::vector<std::string>& records, bool is_control,
               absl::AnyInvocable<void(bool failed)> done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers when the batches there are now are durable: what was found may rest
  // on one of them, and a topic that "exists already" must not be gone after a
  // crash. Precondition: there is one.
  template <typename Result>
  void AnswerAfterQueued(std::vector<Result> results,
                         absl::AnyInvocable<void(std::vector<Result>)> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Appends what is queued unless another thread is doing it.
  void AppendQueued() ABSL_LOCKS_EXCLUDED(mutex_);
  static void OnAppended(AppendRequest* append);
  void RequestApply() ABSL_LOCKS_EXCLUDED(wakeup_mutex_);
  void WakeWriters() ABSL_LOCKS_EXCLUDED(wakeup_mutex_);
  static void RunApply(Continuation* continuation);
  void ApplySettled() ABSL_LOCKS_EXCLUDED(mutex_);
  // The oldest batch if it is durable or has failed; else null.
  std::unique_ptr<Batch> TakeFinished(bool* failed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Once everything that a refused batch took with it is answered, goes on from
  // what the log holds.
  void MaybeRecover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Enqueues, appends and waits; start-up and shutdown only.
  absl::Status Write(const std::vector<std::string>& records, bool is_control);
  absl::Status Replay();
  // Applies the snapshot that the log starts behind, if it does; the offset to
  // go on from.
  absl::StatusOr<int64_t> ReplaySnapshot(MetadataReplayer& replayer);
  absl::Status WriteBootstrapRecords();
  absl::Status WriteLeaderChange();
  bool MustLeadAnew(const PartitionImage& partition) const;
  absl::Status TakeLeadership();

  const MetadataStoreOptions options_;
  LogRef log_;
  int32_t epoch_ = 0;
  int64_t broker_epoch_ = -1;
  std::vector<Uuid> removed_topic_ids_;
  ApplyContinuation apply_;
  std::atomic<bool> apply_posted_{false};

  // For the thread that starts or stops the store. A lock of its own: whoever
  // wakes may be log-io, which does not wait for a planner.
  Mutex wakeup_mutex_;
  CondVar wakeup_;
  uint64_t wakeup_count_ ABSL_GUARDED_BY(wakeup_mutex_) = 0;

  mutable Mutex mutex_;
  std::shared_ptr<const MetadataImage> tentative_ ABSL_GUARDED_BY(mutex_);
  // With the last batch that was applied.
  std::shared_ptr<const MetadataImage> applied_ ABSL_GUARDED_BY(mutex_);
  int64_t next_offset_ ABSL_GUARDED_BY(mutex_) = 0;
  // In log order. The first appended_count_ were handed to the log.
  std::deque<std::unique_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
  size_t appended_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool appending_ ABSL_GUARDED_BY(mutex_) = false;
  bool applying_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_METADATA_STORE_H_
