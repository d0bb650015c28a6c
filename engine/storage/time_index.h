// `<base offset>.timeindex`: how young the records up to an offset are. Entries
// are Kafka's: int64 largest timestamp so far, int32 last offset (relative to
// the base) of the batch that has it, big-endian, both rising. The last entry of
// a closed segment carries the segment's largest timestamp.
//
// Threads: as IndexFile.
#ifndef GYRE_ENGINE_STORAGE_TIME_INDEX_H_
#define GYRE_ENGINE_STORAGE_TIME_INDEX_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/fs/file.h"
#include "engine/storage/index_file.h"

namespace gyre {

struct TimestampOffset {
  int64_t timestamp = -1;
  int64_t offset = 0;

  bool operator==(const TimestampOffset&) const = default;
};

class TimeIndex {
 public:
  static constexpr size_t kEntryBytes = 12;

  explicit TimeIndex(int64_t base_offset) : base_offset_(base_offset), file_(kEntryBytes) {}

  absl::Status Load(FileRef file);
  absl::Status Reset(FileRef file) { return file_.Reset(std::move(file)); }

  // Does nothing unless `timestamp` is above the last entry's.
  void MaybeAppend(int64_t timestamp, int64_t offset);

  // The last entry whose timestamp is below `timestamp`: no record up to its
  // offset is as young. {-1, base} when there is none.
  TimestampOffset LookupBelow(int64_t timestamp) const;
  TimestampOffset Last() const;

  // Drops the entries for batches that end at or after `offset`.
  absl::Status TruncateTo(int64_t offset);
  absl::Status Flush() { return file_.Flush(); }
  absl::Status Sync() { return file_.Sync(); }
  int64_t entry_count() const { return file_.entry_count(); }

 private:
  TimestampOffset Decode(const char* entry) const;

  const int64_t base_offset_;
  IndexFile file_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_TIME_INDEX_H_
