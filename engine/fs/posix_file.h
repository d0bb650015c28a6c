// A File that is a descriptor.
//
// Threads: any.
// Owns: the descriptor.
#ifndef GYRE_ENGINE_FS_POSIX_FILE_H_
#define GYRE_ENGINE_FS_POSIX_FILE_H_

#include <atomic>
#include <string>

#include "engine/fs/file.h"

namespace gyre {

// Asks the kernel which pages of a file are cached: cachestat(2) where it
// works (6.5, and no filter in the way), else mincore(2) over a mapping.
// Remembers the first refusal. One per file system, shared by its files.
class ResidencyProbe {
 public:
  explicit ResidencyProbe(bool use_cachestat) : cachestat_works_(use_cachestat) {}

  bool IsResident(int fd, int64_t position, size_t size_bytes);

  // preadv2(2) with RWF_NOWAIT, which some file systems do not have.
  bool nowait_works() const { return nowait_works_.load(std::memory_order_relaxed); }
  void OnNowaitRefused() { nowait_works_.store(false, std::memory_order_relaxed); }

 private:
  // Relaxed: hints on which call to try; no data hangs on them.
  std::atomic<bool> cachestat_works_;
  std::atomic<bool> nowait_works_{true};
};

class PosixFile final : public File {
 public:
  // `probe` outlives the file.
  PosixFile(int fd, std::string path, ResidencyProbe* probe)
      : fd_(fd), path_(std::move(path)), probe_(probe) {}
  ~PosixFile() override;

  int fd() const override { return fd_; }
  const std::string& path() const override { return path_; }
  IoResult ReadAt(int64_t position, void* to, size_t size_bytes) const override;
  IoResult ReadResident(int64_t position, void* to, size_t size_bytes) const override;
  IoResult WriteVAt(int64_t position, const iovec* parts, int part_count) override;
  absl::Status Truncate(int64_t size_bytes) override;
  absl::Status Sync() override;
  absl::StatusOr<int64_t> SizeBytes() const override;
  bool IsResident(int64_t position, size_t size_bytes) const override;

 private:
  const int fd_;
  const std::string path_;
  ResidencyProbe* const probe_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_POSIX_FILE_H_
