#include "engine/fs/posix_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "engine/fs/file_error.h"

namespace gyre {
namespace {

// The most one read or write moves (MAX_RW_COUNT); keeps counts in an int32.
constexpr size_t kMaxTransferBytes = 0x7ffff000;

// cachestat(2) is newer than the headers we build against: its number is the
// same on every architecture, and these are its two arguments.
constexpr long kCachestatSyscall = 451;
struct CachestatRange {
  uint64_t position;
  uint64_t size_bytes;
};
struct Cachestat {
  uint64_t cached_pages;
  uint64_t dirty_pages;
  uint64_t writeback_pages;
  uint64_t evicted_pages;
  uint64_t recently_evicted_pages;
};

size_t PageSize() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

bool MincoreSaysResident(int fd, int64_t first_page_position, size_t page_count) {
  const size_t size_bytes = page_count * PageSize();
  // The mapping reads nothing; it only gives mincore an address to ask about.
  void* mapping = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, first_page_position);
  if (mapping == MAP_FAILED) return false;
  std::vector<unsigned char> pages(page_count);
  const bool known = mincore(mapping, size_bytes, pages.data()) == 0;
  munmap(mapping, size_bytes);
  return known && std::all_of(pages.begin(), pages.end(),
                              [](unsigned char page) { return (page & 1) != 0; });
}

}  // namespace

bool ResidencyProbe::IsResident(int fd, int64_t position, size_t size_bytes) {
  if (size_bytes == 0) return true;
  const auto page_size = static_cast<int64_t>(PageSize());
  const int64_t first_page = position / page_size;
  const int64_t last_page = (position + static_cast<int64_t>(size_bytes) - 1) / page_size;
  const auto page_count = static_cast<size_t>(last_page - first_page + 1);
  if (cachestat_works_.load(std::memory_order_relaxed)) {
    const CachestatRange range = {static_cast<uint64_t>(first_page * page_size),
                                  page_count * PageSize()};
    Cachestat stat = {};
    if (syscall(kCachestatSyscall, fd, &range, &stat, 0) == 0) {
      return stat.cached_pages >= page_count;
    }
    if (errno == ENOSYS || errno == EPERM) {
      cachestat_works_.store(false, std::memory_order_relaxed);
    }
  }
  return MincoreSaysResident(fd, first_page * page_size, page_count);
}

PosixFile::~PosixFile() { close(fd_); }

IoResult PosixFile::ReadAt(int64_t position, void* to, size_t size_bytes) const {
  ssize_t ret;
  do {
    ret = pread(fd_, to, std::min(size_bytes, kMaxTransferBytes), position);
  } while (ret < 0 && errno == EINTR);
  return IoResult::FromSyscall(ret, errno);
}

IoResult PosixFile::ReadResident(int64_t position, void* to, size_t size_bytes) const {
  if (!probe_->nowait_works()) return File::ReadResident(position, to, size_bytes);
  const iovec part = {to, std::min(size_bytes, kMaxTransferBytes)};
  ssize_t ret;
  do {
    ret = preadv2(fd_, &part, 1, position, RWF_NOWAIT);
  } while (ret < 0 && errno == EINTR);
  if (ret < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM)) {
    probe_->OnNowaitRefused();
    return File::ReadResident(position, to, size_bytes);
  }
  return IoResult::FromSyscall(ret, errno);
}

IoResult PosixFile::WriteVAt(int64_t position, const iovec* parts, int part_count) {
  ssize_t ret;
  do {
    ret = pwritev(fd_, parts, part_count, position);
  } while (ret < 0 && errno == EINTR);
  return IoResult::FromSyscall(ret, errno);
}

absl::Status PosixFile::Truncate(int64_t size_bytes) {
  int ret;
  do {
    ret = ftruncate(fd_, size_bytes);
  } while (ret < 0 && errno == EINTR);
  return ret == 0 ? absl::OkStatus() : FileError("truncate", path_, errno);
}

absl::Status PosixFile::Sync() {
  // Not repeated on EINTR-like failures: after one failed fdatasync the kernel
  // may have dropped the dirty pages, and a second one would claim success.
  return fdatasync(fd_) == 0 ? absl::OkStatus() : FileError("fdatasync", path_, errno);
}

absl::StatusOr<int64_t> PosixFile::SizeBytes() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return FileError("fstat", path_, errno);
  return info.st_size;
}

bool PosixFile::IsResident(int64_t position, size_t size_bytes) const {
  return probe_->IsResident(fd_, position, size_bytes);
}

}  // namespace gyre
