// An append-only file of fixed-size entries, sorted, searched by a predicate:
// what the offset index and the time index have in common. The last, unfinished
// block of entries lives in memory; a block is written when it is full, so that
// appending costs a system call per 512 entries and memory stays at one block
// per segment. Indexes are never synced on the way: after a crash they are
// rebuilt from the log.
//
// Threads: Append, Truncate, Flush one at a time (the log's writer); lookups any.
// Owns: its file and one block.
// Invariant: block i of the file is complete iff i < block_count.
#ifndef GYRE_ENGINE_STORAGE_INDEX_FILE_H_
#define GYRE_ENGINE_STORAGE_INDEX_FILE_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file.h"

namespace gyre {

class IndexFile {
 public:
  static constexpr size_t kBlockEntries = 512;
  static constexpr size_t kMaxEntryBytes = 12;

  struct Entry {
    char bytes[kMaxEntryBytes];
  };

  // `entry_bytes` is 8 or 12.
  explicit IndexFile(size_t entry_bytes) : entry_bytes_(entry_bytes) {}
  IndexFile(const IndexFile&) = delete;
  IndexFile& operator=(const IndexFile&) = delete;

  // Takes over what `file` holds, checked by `in_order(previous, next)` over the
  // last block. DATA_LOSS when its size or its order cannot be; then it is as
  // after Reset.
  absl::Status Load(FileRef file, bool (*in_order)(const char* previous, const char* next));
  // Takes over `file` and empties it.
  absl::Status Reset(FileRef file);

  void Append(const char* entry);
  // Keeps the first `entry_count` entries.
  absl::Status Truncate(int64_t entry_count);
  // Writes the unfinished block, so that the file holds every entry.
  absl::Status Flush();
  absl::Status Sync();

  int64_t entry_count() const ABSL_LOCKS_EXCLUDED(mutex_);
  // False when there is none.
  bool Last(Entry* entry) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The index of the last entry for which `holds` is true, given that it is true
  // for a prefix of them; -1 when for none. The entry goes to `found`.
  template <typename Predicate>
  int64_t FindLast(Predicate holds, Entry* found) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Index of the last of `count` entries at `entries` that holds, or -1.
  template <typename Predicate>
  int64_t SearchIn(const char* entries, int64_t count, Predicate holds) const {
    int64_t low = -1;
    int64_t high = count;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (holds(entries + middle * static_cast<int64_t>(entry_bytes_)) ? low : high) = middle;
    }
    return low;
  }
  int64_t BlockPosition(int64_t block) const {
    return block * static_cast<int64_t>(kBlockEntries * entry_bytes_);
  }
  bool ReadAt(int64_t position, char* to, size_t size_bytes) const {
    return file_->ReadExactly(position, to, size_bytes).ok();
  }

  const size_t entry_bytes_;
  FileRef file_;
  // A failed write ends the index; lookups go on with what it has.
  bool broken_ = false;
  mutable Mutex mutex_;
  int64_t block_count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t tail_count_ ABSL_GUARDED_BY(mutex_) = 0;
  char tail_[kBlockEntries * kMaxEntryBytes] ABSL_GUARDED_BY(mutex_);
};

template <typename Predicate>
int64_t IndexFile::FindLast(Predicate holds, Entry* found) const {
  int64_t block_count = 0;
  {
    MutexLock lock(mutex_);
    block_count = block_count_;
    if (tail_count_ > 0 && holds(tail_)) {
      const int64_t index = SearchIn(tail_, tail_count_, holds);
      std::memcpy(found->bytes, tail_ + index * static_cast<int64_t>(entry_bytes_), entry_bytes_);
      return block_count_ * static_cast<int64_t>(kBlockEntries) + index;
    }
  }
  // By the first entry of each block, then inside one block.
  int64_t low = -1;
  int64_t high = block_count;
  char first[kMaxEntryBytes];
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (!ReadAt(BlockPosition(middle), first, entry_bytes_)) return -1;
    (holds(first) ? low : high) = middle;
  }
  if (low < 0) return -1;
  char block[kBlockEntries * kMaxEntryBytes];
  if (!ReadAt(BlockPosition(low), block, kBlockEntries * entry_bytes_)) return -1;
  const int64_t index = SearchIn(block, kBlockEntries, holds);
  if (index < 0) return -1;  // the file changed under us: as if there were no index
  std::memcpy(found->bytes, block + index * static_cast<int64_t>(entry_bytes_), entry_bytes_);
  return low * static_cast<int64_t>(kBlockEntries) + index;
}

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_INDEX_FILE_H_
