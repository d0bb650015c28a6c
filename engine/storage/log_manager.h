// All partition logs of one data directory: opens (recovering where needed),
// creates, deletes and closes them.
//
// Threads: any; mutex_ is never held over I/O. Create and Delete of one
// partition must not run at the same time (the broker's metadata orders them).
// Owns: the logs, together with whoever holds a LogRef.  Borrows: the directory
// and what Options points to; they outlive it and every LogRef.
#ifndef GYRE_ENGINE_STORAGE_LOG_MANAGER_H_
#define GYRE_ENGINE_STORAGE_LOG_MANAGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/base/uuid.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file_io.h"
#include "engine/storage/data_directory.h"
#include "engine/storage/flusher.h"
#include "engine/storage/log_config.h"
#include "engine/storage/partition_log.h"
#include "engine/storage/topic_partition.h"

namespace gyre {

// One reference to a log, held by the broker's partition for its life. Taking
// one is for cold paths.
using LogRef = std::shared_ptr<PartitionLog>;

struct LogManagerOptions {
  LogConfig default_config;
  FlushMode flush_mode = FlushMode::kGroup;
  // Logs of this topic are flushed as in kGroup, whatever flush_mode says: the
  // metadata log, whose records are durable before anybody hears of them.
  std::string always_durable_topic;
  FileIo* file_io = nullptr;         // required: carries out the syncs
  const Clock* clock = nullptr;      // required
  LogListener* listener = nullptr;   // may be null
  ContinuationLane* lane = nullptr;  // may be null; see PartitionLogOptions
  int recovery_thread_count = 2;     // 0: on the calling thread
};

class LogManager {
 public:
  // Opens every partition directory with default_config (see UpdateConfig).
  // After an unclean stop scans each from its recovery point and truncates at
  // the last whole batch. A log that cannot be opened is there, offline, and so is
  // one that has records by the checkpoint but no directory (PartitionLog::is_missing);
  // only a directory that cannot be listed fails the call. Finishes interrupted
  // deletions.
  static absl::StatusOr<std::unique_ptr<LogManager>> Open(DataDirectory& directory,
                                                          const LogManagerOptions& options);
  ~LogManager();
  LogManager(const LogManager&) = delete;
  LogManager& operator=(const LogManager&) = delete;

  // Null when there is none.
  LogRef Find(const TopicPartition& topic_partition) const;
  // Sorted by name.
  std::vector<LogRef> All() const;

  // A new, empty, durable partition directory with partition.metadata. An
  // existing log with the same topic id is returned as it is, one whose id is
  // not known takes this one; with another id: ALREADY_EXISTS.
  absl::StatusOr<LogRef> Create(const TopicPartition& topic_partition, const Uuid& topic_id,
                                const LogConfig& config);
  // Renames the directory out of the way (durably), answers queued and later
  // appends with UNKNOWN_TOPIC_OR_PARTITION, and removes the files; reads that
  // are being sent keep theirs open. Files that are gone already are no error.
  // NOT_FOUND when there is no such log.
  absl::Status Delete(const TopicPartition& topic_partition);
  // As Delete, but the files stay, in a directory that ends in "-stray", which
  // no start looks into.
  absl::Status SetAside(const TopicPartition& topic_partition);

  // kInterval: called by whoever keeps the time.
  void RequestFlushAll();
  // Writes the recovery-point and log-start checkpoints: now and then, so that
  // less is scanned after a crash.
  absl::Status WriteCheckpoints();

  // Clean stop. Precondition: no append is running or will come. Syncs every
  // log and its indexes on this thread, writes checkpoints and, unless a log is
  // offline or failed to sync, the clean-stop marker. Later calls do nothing.
  absl::Status Close(int64_t broker_epoch);

  Flusher& flusher() { return flusher_; }
  FlushMode flush_mode() const { return flusher_.mode(); }
  // Logs whose tail was truncated, or whose index was rebuilt, by Open.
  int recovered_log_count() const { return recovered_log_count_; }

 private:
  LogManager(DataDirectory& directory, const LogManagerOptions& options);

  absl::Status OpenAll();
  // Removes the directories `names` of deletions that a crash cut short, and the
  // recovery points of those whose name is not among `found`.
  absl::Status FinishDeletions(const std::vector<std::string>& names,
                               const std::set<TopicPartition>& found, OffsetMap* recovery_points);
  PartitionLogOptions MakeLogOptions(const TopicPartition& topic_partition,
                                     const LogConfig& config);
  // The log, out of the way under its new name.
  absl::StatusOr<LogRef> Retire(const TopicPartition& topic_partition, absl::string_view suffix);
  absl::Status RemoveFromCheckpoints(const TopicPartition& topic_partition);
  std::string DirectoryOf(const TopicPartition& topic_partition) const;

  DataDirectory& directory_;
  const LogManagerOptions options_;
  Flusher flusher_;
  Flusher always_durable_flusher_;
  int recovered_log_count_ = 0;
  // Held over the checkpoint files' I/O; before mutex_.
  Mutex checkpoint_mutex_;
  OffsetMap recovery_points_ ABSL_GUARDED_BY(checkpoint_mutex_);  // as last written
  OffsetMap log_starts_ ABSL_GUARDED_BY(checkpoint_mutex_);

  mutable Mutex mutex_;
  std::map<TopicPartition, LogRef> logs_ ABSL_GUARDED_BY(mutex_);
  uint64_t deletion_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_LOG_MANAGER_H_
