// One open file, positional calls only. Blocking: never called on a processor,
// except through the ring. Ref-counted, because a response that is being sent
// keeps the segment it points into open after the segment was deleted.
//
// Threads: any; positional calls do not share a cursor.
#ifndef GYRE_ENGINE_FS_FILE_H_
#define GYRE_ENGINE_FS_FILE_H_

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/io_result.h"

namespace gyre {

class File {
 public:
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // The descriptor, for ring operations; -1 where there is none (simulation).
  virtual int fd() const = 0;
  virtual const std::string& path() const = 0;

  // Up to `size_bytes` at `position`; fewer only at the end of the file or on
  // a short read of the device. 0 at the end.
  virtual IoResult ReadAt(int64_t position, void* to, size_t size_bytes) const = 0;
  // The same without waiting for the disk: EAGAIN where the first page is not in
  // the page cache, short where a later one is not. It may start reading them.
  virtual IoResult ReadResident(int64_t position, void* to, size_t size_bytes) const;
  // One pwritev; may be short.
  virtual IoResult WriteVAt(int64_t position, const iovec* parts, int part_count) = 0;
  virtual absl::Status Truncate(int64_t size_bytes) = 0;
  // fdatasync.
  virtual absl::Status Sync() = 0;
  virtual absl::StatusOr<int64_t> SizeBytes() const = 0;
  // True when every page of [position, position + size) is in the page cache
  // (cachestat, else mincore). A hint: it may be stale at once.
  virtual bool IsResident(int64_t position, size_t size_bytes) const = 0;

  // Loops over short calls until everything is read or written; a file that
  // ends early is OUT_OF_RANGE.
  absl::Status ReadExactly(int64_t position, void* to, size_t size_bytes) const;
  absl::Status WriteAll(int64_t position, const void* from, size_t size_bytes);

  // Gauge: how many FileRefs name it.
  int32_t reference_count() const { return references_.load(std::memory_order_relaxed); }

 protected:
  File() = default;
  virtual ~File() = default;

 private:
  friend class FileRef;
  std::atomic<int32_t> references_{0};
};

// One reference to a File; null when default-made. The last one closes it.
class FileRef {
 public:
  FileRef() = default;
  explicit FileRef(File* file) : file_(file) { Acquire(); }
  FileRef(const FileRef& other) : file_(other.file_) { Acquire(); }
  FileRef(FileRef&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  FileRef& operator=(FileRef other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileRef() {
    if (file_ != nullptr && file_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete file_;
    }
  }

  File* get() const { return file_; }
  File* operator->() const { return file_; }
  File& operator*() const { return *file_; }
  explicit operator bool() const { return file_ != nullptr; }

 private:
  void Acquire() {
    if (file_ != nullptr) file_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  File* file_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FILE_H_
