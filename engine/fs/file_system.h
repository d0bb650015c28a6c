// The calls on names rather than on open files: blocking, at start-up, on
// segment roll and on topic creation or deletion; never on a processor.
// Real() is the kernel's; fault_injecting_file_system.h keeps an in-memory
// disk that forgets, on PowerLoss(), every byte and directory entry that was
// not synced.
//
// Threads: any.
#ifndef GYRE_ENGINE_FS_FILE_SYSTEM_H_
#define GYRE_ENGINE_FS_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/fs/file.h"

namespace gyre {

enum class OpenMode {
  kRead,       // must exist
  kReadWrite,  // must exist
  kCreate,     // read-write; created if missing, kept if there
  kCreateNew,  // read-write; ALREADY_EXISTS if there
};

// Held while the data directory is in use; releasing it unlocks.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // Any thread. NOT_FOUND when the locked file is no longer the one at its path: it, or
  // a directory above it, was removed, replaced or mounted over.
  virtual absl::Status CheckStillThere() const = 0;
};

struct RealFileSystemOptions {
  bool use_cachestat = true;  // false: residency is asked of mincore alone
};

// Errors carry the path and the reason: NOT_FOUND, ALREADY_EXISTS,
// PERMISSION_DENIED, RESOURCE_EXHAUSTED (ENOSPC, EMFILE), else INTERNAL.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<FileRef> Open(const std::string& path, OpenMode mode) = 0;
  // One level; OK when it is already a directory.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;
  // Names (not paths) of the entries, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual absl::StatusOr<bool> Exists(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // A file or an empty directory.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Makes the entries of directory `path` durable (fsync of the directory).
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // An exclusive lock on `path` (created if missing); FAILED_PRECONDITION when
  // another process holds it.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;

  // The whole file; for small text files.
  absl::StatusOr<std::string> ReadFile(const std::string& path);
  // Writes `path`.tmp, syncs it, renames it over `path`, syncs the directory:
  // after a crash the file holds either its old or its new content.
  absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);
  // Depth first; OK when there is nothing at `path`.
  absl::Status RemoveRecursively(const std::string& path);

  static FileSystem& Real();
  // A kernel file system of one's own; it outlives the files it opens.
  static std::unique_ptr<FileSystem> NewReal(const RealFileSystemOptions& options);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FILE_SYSTEM_H_
