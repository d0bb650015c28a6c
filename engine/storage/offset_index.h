// `<base offset>.index`: where in the segment a batch starts, for one batch in
// each index.interval.bytes. Entries are Kafka's: int32 last offset of the batch
// relative to the base, int32 position of its first byte, big-endian, rising.
//
// Threads: as IndexFile.
#ifndef GYRE_ENGINE_STORAGE_OFFSET_INDEX_H_
#define GYRE_ENGINE_STORAGE_OFFSET_INDEX_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/fs/file.h"
#include "engine/storage/index_file.h"

namespace gyre {

struct OffsetPosition {
  int64_t offset = 0;  // at or before the first record at `position`'s batch end
  int64_t position = 0;

  bool operator==(const OffsetPosition&) const = default;
};

class OffsetIndex {
 public:
  static constexpr size_t kEntryBytes = 8;

  explicit OffsetIndex(int64_t base_offset) : base_offset_(base_offset), file_(kEntryBytes) {}

  // See IndexFile. A last entry at or beyond `log_bytes` is DATA_LOSS too.
  absl::Status Load(FileRef file, int64_t log_bytes);
  absl::Status Reset(FileRef file) { return file_.Reset(std::move(file)); }

  // Precondition: above the last entry; within 2^31 of the base.
  void Append(int64_t last_offset, int64_t position);

  // A place from which a scan forward meets the batch that holds `offset`: the
  // last entry at or below it, else the segment's start.
  OffsetPosition Lookup(int64_t offset) const;
  // The last entry whose position is at or below `position`.
  OffsetPosition LookupPosition(int64_t position) const;
  OffsetPosition Last() const;

  // Drops the entries of batches that end at or after `offset`.
  absl::Status TruncateTo(int64_t offset);
  absl::Status Flush() { return file_.Flush(); }
  absl::Status Sync() { return file_.Sync(); }
  int64_t entry_count() const { return file_.entry_count(); }

 private:
  OffsetPosition Decode(const char* entry) const;

  const int64_t base_offset_;
  IndexFile file_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_OFFSET_INDEX_H_
