// Which leadership wrote which offsets: (epoch, start offset) pairs, both
// rising, kept in `leader-epoch-checkpoint` in Kafka's text form.
//
// Threads: any; one lock. Persist writes the file on the calling thread.
// Owns: its entries.
#ifndef GYRE_ENGINE_STORAGE_LEADER_EPOCH_CACHE_H_
#define GYRE_ENGINE_STORAGE_LEADER_EPOCH_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file_system.h"

namespace gyre {

// The answer to "where did epoch E end here?".
struct EpochEndOffset {
  int32_t leader_epoch = -1;
  int64_t end_offset = -1;

  bool operator==(const EpochEndOffset&) const = default;
};

class LeaderEpochCache {
 public:
  struct Entry {
    int32_t epoch = 0;
    int64_t start_offset = 0;

    bool operator==(const Entry&) const = default;
  };

  LeaderEpochCache() = default;
  LeaderEpochCache(const LeaderEpochCache&) = delete;
  LeaderEpochCache& operator=(const LeaderEpochCache&) = delete;

  // NOT_FOUND when there is no file, DATA_LOSS when it is damaged; empty then.
  absl::Status Load(FileSystem& file_system, const std::string& path);
  absl::Status Persist(FileSystem& file_system, const std::string& path) const;

  // Starts `epoch` at `start_offset`; false when it is not above the latest.
  // Entries of epochs that wrote nothing (same start offset) are replaced.
  bool Assign(int32_t epoch, int64_t start_offset);
  // -1 when empty.
  int32_t latest_epoch() const;
  // Of the record at `offset`; -1 when unknown.
  int32_t EpochOf(int64_t offset) const;
  // The latest epoch, or one still to come: (epoch, log end) only for the latest;
  // (-1, -1) above it. Known or between two known: (largest known epoch <= asked,
  // start of the next). Below all known: (asked, start of the first).
  EpochEndOffset EndOffsetFor(int32_t epoch, int64_t log_end_offset) const;

  // Drops what starts at or after `offset`.
  bool TruncateFromEnd(int64_t offset);
  std::vector<Entry> entries() const;

 private:
  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_LEADER_EPOCH_CACHE_H_
