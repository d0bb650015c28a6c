// One file of a log and its two indexes:
//
//   <20 digits of the base offset>.log        whole batches, back to back
//   <20 digits of the base offset>.index      offset_index.h
//   <20 digits of the base offset>.timeindex  time_index.h
//
// Threads: the log's writer appends and seals; lookups any. What readers may see
// is the published Extent.
// Owns: its indexes, one reference to the file. Counted, because a read looks
// things up in a segment that a truncation may be replacing.
// Invariant: below extent().size_bytes the file holds whole batches.
#ifndef GYRE_ENGINE_STORAGE_LOG_SEGMENT_H_
#define GYRE_ENGINE_STORAGE_LOG_SEGMENT_H_

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/ref_ptr.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file.h"
#include "engine/fs/file_system.h"
#include "engine/record/record_batch.h"
#include "engine/storage/offset_index.h"
#include "engine/storage/time_index.h"

namespace gyre {

class LogSegment;
using LogSegmentRef = RefPtr<LogSegment>;

class LogSegment : public RefCounted {
 public:
  // What a reader may rely on, all three of one moment.
  struct Extent {
    int64_t size_bytes = 0;
    int64_t end_offset = 0;  // of the next record
    int64_t max_timestamp = -1;
  };

  // A batch of the segment: what reads need of its header.
  struct Batch {
    int64_t position = 0;
    int64_t end_position = 0;
    int64_t base_offset = 0;
    int64_t last_offset = 0;
    int64_t max_timestamp = -1;
  };

  static std::string FileName(int64_t base_offset, absl::string_view suffix);
  // The base offset of a "<20 digits><suffix>" name; none for any other name.
  static std::optional<int64_t> ParseFileName(absl::string_view name, absl::string_view suffix);

  // New empty files in `directory`; files in the way are replaced. The caller
  // syncs the directory.
  static absl::StatusOr<LogSegmentRef> Create(FileSystem& file_system, const std::string& directory,
                                              int64_t base_offset);
  // Opens the log file; the indexes are loaded by LoadIndexes or made anew by
  // ResetIndexes. The extent is empty until published.
  static absl::StatusOr<LogSegmentRef> Open(FileSystem& file_system, const std::string& directory,
                                            int64_t base_offset);
  // Removes the files of the segment; those that are missing are no error.
  static absl::Status RemoveFiles(FileSystem& file_system, const std::string& directory,
                                  int64_t base_offset);

  absl::Status LoadIndexes(FileSystem& file_system, const std::string& directory,
                           int64_t log_bytes);
  absl::Status ResetIndexes(FileSystem& file_system, const std::string& directory);

  int64_t base_offset() const { return base_offset_; }
  const FileRef& file() const { return file_; }
  Extent extent() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Publish(const Extent& extent) ABSL_LOCKS_EXCLUDED(mutex_);
  const OffsetIndex& offset_index() const { return offset_index_; }
  const TimeIndex& time_index() const { return time_index_; }

  // --- The writer's.

  // All of `parts` (which it may change) at `position`, over short writes.
  absl::Status Write(int64_t position, iovec* parts, int part_count);
  // Accounts for a batch that was written: an index entry when
  // `index_interval_bytes` went by since the last.
  void IndexBatch(int64_t position, const RecordBatchView& batch, int32_t index_interval_bytes);
  // Largest timestamp that IndexBatch has seen, and the batch that has it.
  TimestampOffset largest_timestamp() const { return largest_; }
  void set_largest_timestamp(const TimestampOffset& largest) { largest_ = largest; }
  // No more appends: the final time index entry, index files complete.
  absl::Status Seal();
  // Log file and indexes, if anything was written since they were opened or last
  // synced.
  absl::Status SyncAll();

  // --- Lookups, below `end_position` (at most the published size).

  // The first batch whose last offset is at or after `offset`; OUT_OF_RANGE when
  // there is none.
  absl::StatusOr<Batch> FindBatch(int64_t offset, int64_t end_position) const;
  // Where the last batch that ends at or before `limit` ends, given that one
  // ends at `from`; `next_offset` becomes the offset after it. No batch between:
  // `from`, `next_offset` untouched.
  absl::StatusOr<int64_t> EndOfBatchesBefore(int64_t from, int64_t limit, int64_t end_position,
                                             int64_t* next_offset) const;
  // The first batch with max timestamp >= `timestamp`, from `from_offset` on.
  absl::StatusOr<Batch> FindBatchByTimestamp(int64_t timestamp, int64_t from_offset,
                                             int64_t end_position) const;

 private:
  LogSegment(int64_t base_offset, FileRef file)
      : base_offset_(base_offset),
        file_(std::move(file)),
        offset_index_(base_offset),
        time_index_(base_offset),
        largest_{-1, base_offset} {}

  // FindBatch from the batch at `start`; `misled`: the search cannot have begun
  // at or before the offset's batch.
  absl::StatusOr<Batch> FindBatchFrom(int64_t start, int64_t offset, int64_t end_position,
                                      bool* misled) const;

  const int64_t base_offset_;
  const FileRef file_;
  OffsetIndex offset_index_;
  TimeIndex time_index_;

  // The writer's.
  int64_t bytes_since_index_entry_ = 0;
  bool is_dirty_ = false;
  TimestampOffset largest_;

  mutable Mutex mutex_;
  Extent extent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_LOG_SEGMENT_H_
