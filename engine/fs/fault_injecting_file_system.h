// A disk in memory that does to a program what disks do: it loses what was not
// synced when the power goes, tears writes, runs full, fails, and is short.
//
// What survives a PowerLoss is decided per file and per directory. A file's
// bytes are durable after its Sync; its name is durable after a SyncDirectory
// of the directory that holds it: syncing a new file does not make it findable.
// A failed Sync behaves as Linux does: the bytes it was to write stay readable,
// are never written, and the next Sync succeeds without them.
//
// Threads: any; deterministic for one seed when calls come in one order.
// Owns: every byte.  It outlives the files and locks it hands out.
#ifndef GYRE_ENGINE_FS_FAULT_INJECTING_FILE_SYSTEM_H_
#define GYRE_ENGINE_FS_FAULT_INJECTING_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/base/random.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file_system.h"

namespace gyre {

enum class PowerLossMode {
  // The process died, not the machine: what was written is still there, and
  // still unsynced.
  kKeepEverything,
  // Exactly what was synced is left.
  kDropUnsynced,
  // The device wrote unsynced changes in their order and stopped somewhere,
  // possibly in the middle of a write.
  kKeepPrefix,
  // The device wrote some sectors of the unsynced writes, in any order; the
  // rest of an extended file reads as zeros. Directory changes keep their
  // order, as with a journal.
  kKeepSubset,
};

struct Fault {
  enum class Operation {
    kOpen,
    kRead,
    kWrite,
    kTruncate,
    kSync,
    kCreateDirectory,
    kList,
    kRename,
    kRemove,
    kSyncDirectory,
  };
  Operation operation;
  // Which of the operations from now on fails: 1 is the next one.
  uint64_t nth = 1;
  int error = 5;  // EIO
  // Every one after it fails, too, until ClearFaults.
  bool permanent = false;
  // Counts only operations whose path contains this.
  std::string path_contains;
};

class FaultInjectingFileSystem final : public FileSystem {
 public:
  // An empty disk: only "/" is there. Relative paths start at "/", too.
  explicit FaultInjectingFileSystem(uint64_t seed);
  ~FaultInjectingFileSystem() override;

  absl::StatusOr<FileRef> Open(const std::string& path, OpenMode mode) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<bool> Exists(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

  // The power goes and comes back. Files that are open answer ESTALE from now
  // on, locks are gone, and so is a power-off that was scheduled.
  void PowerLoss(PowerLossMode mode);
  // Schedules the power-off: the `nth` changing operation from now (1 is the
  // next) and whatever comes after it fail with EIO and change nothing, until
  // PowerLoss. Running a test once for each n crashes it at every point.
  void PowerOffAt(uint64_t nth);
  bool powered_off() const;
  // Changing operations (create, write, truncate, sync, mkdir, rename, remove,
  // directory sync) so far.
  uint64_t changing_operation_count() const;

  void InjectFault(Fault fault);
  void ClearFaults();
  // Reads and writes that move fewer bytes than asked for (at least one), one
  // in `n`; 0: never.
  void SetShortIoOneIn(uint64_t n);
  // Writes beyond it are short and then fail with ENOSPC; < 0: no limit.
  void SetCapacityBytes(int64_t capacity_bytes);
  // File::Sync, or SyncDirectory, answers OK and does nothing: a crash test
  // that still passes does not test what it says.
  void SetSyncDisabled(bool disabled);
  void SetSyncDirectoryDisabled(bool disabled);
  // What File::IsResident says; true at first.
  void SetResident(bool resident);

  uint64_t sync_count() const;
  uint64_t sync_directory_count() const;

 private:
  class MemoryFile;
  class MemoryLock;
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Place;

  // The node at `path`, or null and an errno.
  NodePtr Find(const std::string& path, int* error) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The directory that holds `path` and the last name of it.
  Place FindPlace(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The errno with which this operation has to fail, or 0.
  int Enter(Fault::Operation operation, const std::string& path, bool changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int OpenNode(const std::string& path, OpenMode mode, NodePtr* node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int RenameNode(const std::string& from, const std::string& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t MaybeShorten(size_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t UsedBytes(const Node& node) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(Node& node, PowerLossMode mode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseFileChanges(Node& node, PowerLossMode mode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The calls of MemoryFile.
  IoResult ReadAt(const MemoryFile& file, int64_t position, void* to, size_t size_bytes);
  IoResult WriteVAt(const MemoryFile& file, int64_t position, const iovec* parts, int part_count);
  absl::Status Truncate(const MemoryFile& file, int64_t size_bytes);
  absl::Status Sync(const MemoryFile& file);
  absl::StatusOr<int64_t> SizeBytes(const MemoryFile& file);

  mutable Mutex mutex_;
  Random random_ ABSL_GUARDED_BY(mutex_);
  NodePtr root_ ABSL_GUARDED_BY(mutex_);
  // Raised by PowerLoss; what was opened in an earlier one is dead.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  uint64_t changing_operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t power_off_at_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t short_io_one_in_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t capacity_bytes_ ABSL_GUARDED_BY(mutex_) = -1;
  bool sync_disabled_ ABSL_GUARDED_BY(mutex_) = false;
  bool sync_directory_disabled_ ABSL_GUARDED_BY(mutex_) = false;
  bool resident_ ABSL_GUARDED_BY(mutex_) = true;
  uint64_t syncs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t directory_syncs_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FAULT_INJECTING_FILE_SYSTEM_H_
