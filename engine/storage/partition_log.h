// One partition's records: a directory of segments, of which the last is
// written. Appends go through one queue (append_queue.h): the caller that finds
// it idle writes everything queued with one pwritev, the others leave. Reads are
// file slices of whole batches and never touch the payload.
//
//   log_start_offset <= durable_offset <= log_end_offset
//
// Threads: any. Appending, rolling and truncating are the queue's writer's
// alone; readers take mutex_ for a few loads, never over I/O.
// Owns: its segments.  Borrows: FileSystem, Flusher, listener, clock, lane.
// Invariant: bytes below a published size never change while the log is open,
// so a slice may be sent without a lock.
#ifndef GYRE_ENGINE_STORAGE_PARTITION_LOG_H_
#define GYRE_ENGINE_STORAGE_PARTITION_LOG_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/base/uuid.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file_slice.h"
#include "engine/fs/file_system.h"
#include "engine/storage/append_queue.h"
#include "engine/storage/append_request.h"
#include "engine/storage/flusher.h"
#include "engine/storage/leader_epoch_cache.h"
#include "engine/storage/log_config.h"
#include "engine/storage/log_recovery.h"
#include "engine/storage/log_segment.h"
#include "engine/storage/topic_partition.h"
#include "proto/wire/error_code.h"

namespace gyre {

class PartitionLog;

// Told when a log's promises move. Must not block: in kGroup mode it runs on
// the log-io thread (mark delayed operations complete, post them elsewhere); in
// the other modes on the thread that wrote, which may hold the log's writer lock:
// the log's atomic offsets may be read, its other calls not made.
class LogListener {
 public:
  virtual ~LogListener() = default;
  // settled_offset() has moved.
  virtual void OnSettled(PartitionLog& log) = 0;
  // The log went offline: nothing it was asked to make durable ever will be.
  virtual void OnOffline(PartitionLog& log) = 0;
};

struct PartitionLogOptions {
  FileSystem* file_system = nullptr;
  const Clock* clock = nullptr;
  Flusher* flusher = nullptr;
  LogListener* listener = nullptr;  // may be null
  // Where a writer that has written for others long enough leaves the rest of
  // the queue; null: it goes on until the queue is empty.
  ContinuationLane* lane = nullptr;
  LogConfig config;
};

struct ReadResult {
  // kNone, kOffsetOutOfRange (then only the two offsets below mean something),
  // kKafkaStorageError.
  ErrorCode error = ErrorCode::kNone;
  // Whole batches, the first of which holds the asked offset; size 0: none.
  FileSlice slice;
  // The offset after the slice's last record; the asked one when it is empty.
  int64_t next_offset = -1;
  // The slice ends where its segment ends: no read can add to it.
  bool reached_segment_end = false;
  int64_t log_start_offset = -1;
  int64_t log_end_offset = -1;
};

struct TimestampResult {
  ErrorCode error = ErrorCode::kNone;
  int64_t offset = -1;  // -1: no record is that young
  int64_t timestamp = -1;
  int32_t leader_epoch = -1;
};

class PartitionLog : public Flushable, public std::enable_shared_from_this<PartitionLog> {
 public:
  // A fresh directory at `path`, durable, with partition.metadata.
  static absl::StatusOr<std::shared_ptr<PartitionLog>> Create(const std::string& path,
                                                              const TopicPartition& topic_partition,
                                                              const Uuid& topic_id,
                                                              const PartitionLogOptions& options);
  // What is on disk. `recovery_point`: everything below was synced (-1 when
  // unknown); `clean`: the last stop was, so the tail is taken as it is. Damage
  // that no crash explains gives a log that is offline, never an error.
  static std::shared_ptr<PartitionLog> Open(const std::string& path,
                                            const TopicPartition& topic_partition, bool clean,
                                            int64_t recovery_point, int64_t log_start_offset,
                                            const PartitionLogOptions& options);
  ~PartitionLog() override;

  const TopicPartition& topic_partition() const { return topic_partition_; }
  // Zero when the directory has no partition.metadata.
  const Uuid& topic_id() const { return topic_id_; }
  // Writes the partition.metadata that is missing. Precondition: topic_id() is
  // zero, the log is online and nobody else uses it yet.
  absl::Status AdoptTopicId(const Uuid& topic_id);
  std::string path() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Validates on this thread (config(), Kafka's rules), then queues. on_done
  // runs exactly once, before or after this returns; see AppendRequest.
  void Append(AppendRequest* request);

  // The batches from the one that holds `offset` on: at most `max_bytes` (one
  // batch even if larger when `min_one_batch`), only batches that lie wholly
  // below `upper_bound_offset` (the reader's high watermark), from one segment.
  // `offset` == log end is an empty result; below the start or above the end is
  // kOffsetOutOfRange.
  ReadResult Read(int64_t offset, int64_t max_bytes, int64_t upper_bound_offset,
                  bool min_one_batch) const;

  // The first record, below `upper_bound_offset`, that is at least `timestamp`
  // old; opens (decompresses) the one batch that holds it.
  TimestampResult OffsetForTimestamp(int64_t timestamp, int64_t upper_bound_offset) const;
  // Where leadership `epoch` ended here: see LeaderEpochCache::EndOffsetFor.
  EpochEndOffset EndOffsetForEpoch(int32_t epoch) const;
  int32_t latest_leader_epoch() const;

  int64_t log_start_offset() const { return log_start_offset_.load(std::memory_order_acquire); }
  int64_t log_end_offset() const { return log_end_offset_.load(std::memory_order_acquire); }
  int64_t durable_offset() const { return durable_offset_.load(std::memory_order_acquire); }
  // How far acks=all may be answered and readers may see, as far as this disk is
  // concerned: the durable offset in kGroup mode, else the log end.
  int64_t settled_offset() const;
  int64_t size_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  int segment_count() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool is_offline() const { return offline_.load(std::memory_order_acquire); }
  absl::Status offline_reason() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Not OK when an append was refused for want of space (or of descriptors) in the last
  // `within_ms` and none was accepted since: the log is online, readers notice nothing.
  absl::Status RecentRefusal(int64_t within_ms) const ABSL_LOCKS_EXCLUDED(mutex_);
  // True when Open truncated the tail or rebuilt an index.
  bool was_recovered() const { return was_recovered_; }
  // True when Open found no directory at all: the log is offline, and has no topic id.
  bool is_missing() const { return is_missing_; }

  LogConfig config() const ABSL_LOCKS_EXCLUDED(config_mutex_);
  void UpdateConfig(const LogConfig& config) ABSL_LOCKS_EXCLUDED(config_mutex_);

  // --- The calls below block on the disk: cold paths only.

  // Starts leadership `epoch` at the log end and makes that durable. Lower than
  // the latest: FAILED_PRECONDITION; equal: nothing. Precondition: no append is
  // running. Called before the first append of a leader.
  absl::Status StartLeaderEpoch(int32_t epoch);
  // For an epoch checkpoint that claims an epoch nobody gave out: rebuilds it from
  // the batches. DATA_LOSS when they have a higher one too.
  absl::Status DropLeaderEpochsAbove(int32_t epoch);

  // Drops every record from `offset` on, durably. Precondition: no append is
  // running. A segment that a slice still points into is replaced by a copy,
  // not cut.
  absl::Status TruncateTo(int64_t offset);

  // Syncs everything on this thread, indexes included, and stops appends
  // (kKafkaStorageError afterwards).
  absl::Status Close();

  // Renames the directory, if it is still there, to `new_path`, and refuses appends and reads
  // with kUnknownTopicOrPartition from then on. Files stay until RemoveFiles.
  absl::Status MarkDeleted(const std::string& new_path);
  absl::Status RemoveFiles();

  // --- Flushable.
  Sync NextSync(int64_t wanted_offset) override;
  void OnSynced(int64_t end_offset, uint64_t generation) override;
  void OnSyncFailed(int error) override;
  std::shared_ptr<Flushable> KeepAlive() override { return shared_from_this(); }

 private:
  // The rest of the queue, left on the continuation lane.
  struct WriterContinuation : Continuation {
    PartitionLog* log = nullptr;
    std::shared_ptr<PartitionLog> keep_alive;
  };

  PartitionLog(std::string path, const TopicPartition& topic_partition, const Uuid& topic_id,
               const PartitionLogOptions& options);

  // Open's steps.
  absl::Status LoadTopicId();
  absl::Status Load(bool clean, int64_t recovery_point, int64_t log_start_offset);
  absl::StatusOr<std::vector<int64_t>> ListSegments();
  // Where the batches of a finished segment end.
  struct SealedEnd {
    int64_t offset;
    int64_t position;
  };
  static SealedEnd FindSealedEnd(const LogSegment& segment, int64_t end_offset, int64_t size_bytes);
  absl::Status RebuildSealedIndex(LogSegment& segment, int64_t end_offset, absl::string_view why);
  void ReportHole(const LogSegment& segment, int64_t from_offset, int64_t to_offset) const;
  // Takes over a segment that was synced; rebuilds an index that is damaged.
  absl::Status LoadSealed(LogSegment& segment, int64_t end_offset);
  // Finds the end of the last segment of a log that was closed; DATA_LOSS when
  // it does not end with a whole batch.
  absl::Status LoadActive(LogSegment& segment);
  absl::Status LoadClosed(const std::vector<int64_t>& bases);
  absl::Status Recover(const std::vector<int64_t>& bases, int64_t recovery_point);
  absl::StatusOr<SegmentScan> Rescan(LogSegment& segment);
  absl::Status RebuildEpochs();
  absl::Status SyncDirectory();

  // Validates and copies the header; false when `request` holds an error.
  bool Prepare(AppendRequest* request);
  // The writer's loop: until the queue is empty or the lane takes over.
  void RunWriter();
  static void ContinueWriting(Continuation* continuation);
  // Writes the requests of `list` in runs; leaves their results in them.
  void WriteAll(AppendRequest* list) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Writes requests from `first` on to the active segment with one pwritev, up
  // to a bound or to where a roll is due; returns the first that is left.
  AppendRequest* WriteRun(AppendRequest* first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Gives `request` its offsets from `next_offset` on; false when it is refused.
  bool Place(AppendRequest* request, int64_t next_offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // After a successful write at `position`: index, epochs, extent.
  void Account(const AppendRequest& request, LogSegment& segment, int64_t position,
               int32_t index_interval_bytes, LogSegment::Extent* extent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status Roll(int64_t base_offset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  void OnWriteFailed(LogSegment& segment, const absl::Status& status, int64_t good_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status ReplaceByPrefix(const LogSegmentRef& segment, const LogSegment::Batch& first_dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Looks inside a batch for the first record at or after `from_offset` that is
  // old enough; leaves `result` alone when there is none.
  static absl::Status FindRecord(const LogSegment& segment, const LogSegment::Batch& found,
                                 int64_t timestamp, int64_t from_offset, TimestampResult* result);
  void RememberRefusal(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  void GoOffline(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells whoever waits for the log end to have moved.
  void AfterWrite(int64_t end_offset, bool has_rolled);

  LogSegmentRef ActiveSegment() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The segment that would hold `offset`, and the one after it (null: none).
  LogSegmentRef SegmentFor(int64_t offset, LogSegmentRef* next) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string EpochPath() const;

  const TopicPartition topic_partition_;
  Uuid topic_id_;
  FileSystem& file_system_;
  const Clock& clock_;
  Flusher& flusher_;
  LogListener* const listener_;
  ContinuationLane* const lane_;
  bool was_recovered_ = false;
  bool is_missing_ = false;
  bool is_open_ = false;  // set once, before the log is handed out

  mutable Mutex config_mutex_;
  LogConfig config_ ABSL_GUARDED_BY(config_mutex_);

  LeaderEpochCache epochs_;

  // Pairs with themselves: stored with release after what they promise is in
  // place, loaded with acquire.
  std::atomic<int64_t> log_start_offset_{0};
  std::atomic<int64_t> log_end_offset_{0};
  std::atomic<int64_t> durable_offset_{0};
  std::atomic<bool> offline_{false};
  std::atomic<bool> deleted_{false};
  // When refusal_ was set; -1 when an append was accepted since. Relaxed: it promises nothing.
  std::atomic<int64_t> refused_at_ns_{-1};

  AppendQueue queue_;
  WriterContinuation continuation_;

  // Lock order: write_mutex_, then mutex_. Held by the writer over its I/O and
  // by the cold calls that must keep writers out; never by readers.
  Mutex write_mutex_;
  bool closed_ ABSL_GUARDED_BY(write_mutex_) = false;
  bool epochs_changed_ ABSL_GUARDED_BY(write_mutex_) = false;
  bool has_rolled_ ABSL_GUARDED_BY(write_mutex_) = false;

  mutable Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  std::vector<LogSegmentRef> segments_ ABSL_GUARDED_BY(mutex_);
  absl::Status offline_reason_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  // Counts truncations: a sync that began before one proves nothing after it.
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_PARTITION_LOG_H_
