// The directory that holds everything: who may use it (lock), whose it is
// (meta.properties), how it was left (clean-stop marker), and the per-partition
// offsets that outlive a process (checkpoints). File names and formats are
// Kafka's, see FORMAT.md.
//
// Threads: one at a time, except the const accessors.
// Owns: the lock, until destroyed.  Borrows: the FileSystem.
#ifndef GYRE_ENGINE_STORAGE_DATA_DIRECTORY_H_
#define GYRE_ENGINE_STORAGE_DATA_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/uuid.h"
#include "engine/fs/file_system.h"
#include "engine/storage/offset_checkpoint.h"

namespace gyre {

struct DataDirectoryOptions {
  int32_t node_id = 1;
  // Refuses a directory of another cluster; none: takes the directory's, or, in
  // a new directory, fresh_cluster_id.
  std::optional<Uuid> cluster_id;
  // Drawn by the caller (randomness is passed in); used when meta.properties is
  // missing and the directory holds no partitions.
  Uuid fresh_cluster_id;
  Uuid fresh_directory_id;
};

class DataDirectory {
 public:
  // Creates the directory (one level) if it is missing, locks it, reads or
  // writes meta.properties, reads and removes the clean-stop marker. Errors are
  // one line that says what to do: locked by another process, not writable, a
  // newer version, another node's or another cluster's, somebody's files.
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Open(FileSystem& file_system,
                                                             const std::string& path,
                                                             const DataDirectoryOptions& options);

  // Whether Open would take what is at `path` as far as can be told without the lock and
  // without writing: another process may be using it. OK when there is nothing yet.
  static absl::Status Check(FileSystem& file_system, const std::string& path,
                            const DataDirectoryOptions& options);

  // Not OK when the directory was removed or replaced under us: what is written goes to
  // files that nobody will find. Any thread.
  absl::Status CheckStillThere() const;

  const std::string& path() const { return path_; }
  FileSystem& file_system() const { return file_system_; }
  // As in meta.properties; a cluster id made by other tools need not be a Uuid.
  const std::string& cluster_id() const { return cluster_id_; }
  const Uuid& directory_id() const { return directory_id_; }
  int32_t node_id() const { return node_id_; }
  // The file whose lock says that a process has the directory at `path`.
  static std::string LockPathOf(absl::string_view path);
  // True when meta.properties was made by this Open.
  bool is_new() const { return is_new_; }
  // How the last process left it. A new directory counts as clean.
  bool was_clean_stop() const { return was_clean_stop_; }
  // From the marker; -1 when there was none.
  int64_t last_broker_epoch() const { return last_broker_epoch_; }

  // Checkpoints: missing reads as empty; damaged is an error for the caller to
  // judge (recovery does without). Writes are atomic and durable.
  absl::StatusOr<OffsetMap> ReadRecoveryPoints() const;
  absl::Status WriteRecoveryPoints(const OffsetMap& offsets);
  absl::StatusOr<OffsetMap> ReadHighWatermarks() const;
  absl::Status WriteHighWatermarks(const OffsetMap& offsets);
  absl::StatusOr<OffsetMap> ReadLogStartOffsets() const;
  absl::Status WriteLogStartOffsets(const OffsetMap& offsets);

  // The very last write of a clean stop, after everything else is synced.
  absl::Status WriteCleanStopMarker(int64_t broker_epoch);

 private:
  DataDirectory(FileSystem& file_system, std::string path)
      : file_system_(file_system), path_(std::move(path)) {}

  absl::Status Lock();
  // NOT_FOUND: there is none, and no partition that would belong to it.
  absl::Status LoadMeta(const DataDirectoryOptions& options);
  absl::Status CreateMeta(const DataDirectoryOptions& options);
  absl::Status TakeCleanStopMarker();
  std::string PathOf(absl::string_view name) const;

  FileSystem& file_system_;
  const std::string path_;
  std::unique_ptr<FileLock> lock_;
  std::string cluster_id_;
  Uuid directory_id_;
  int32_t node_id_ = -1;
  bool is_new_ = false;
  bool was_clean_stop_ = false;
  int64_t last_broker_epoch_ = -1;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_DATA_DIRECTORY_H_
