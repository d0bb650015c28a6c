#include "engine/fs/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/fs/file_error.h"
#include "engine/fs/posix_file.h"

namespace gyre {
namespace {

int OpenFlags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
      return O_RDONLY;
    case OpenMode::kReadWrite:
      return O_RDWR;
    case OpenMode::kCreate:
      return O_RDWR | O_CREAT;
    case OpenMode::kCreateNew:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

int OpenRetrying(const std::string& path, int flags) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFileLock() override { close(fd_); }

  absl::Status CheckStillThere() const override {
    struct stat held;
    struct stat there;
    if (fstat(fd_, &held) != 0) return FileError("stat", path_, errno);
    if (stat(path_.c_str(), &there) != 0) {
      return FileError("stat", path_, errno == ENOTDIR ? ENOENT : errno);
    }
    if (held.st_dev == there.st_dev && held.st_ino == there.st_ino) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(path_, ": is another file than the one locked"));
  }

 private:
  const int fd_;
  const std::string path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(bool use_cachestat) : probe_(use_cachestat) {}

  absl::StatusOr<FileRef> Open(const std::string& path, OpenMode mode) override {
    const int fd = OpenRetrying(path, OpenFlags(mode));
    if (fd < 0) return FileError("open", path, errno);
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
      close(fd);
      return FileError("open", path, EISDIR);
    }
    return FileRef(new PosixFile(fd, path, &probe_));
  }

  absl::Status CreateDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat info;
    if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return absl::OkStatus();
    }
    return FileError("mkdir", path, error);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return FileError("list", path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(directory)) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    const int error = errno;
    closedir(directory);
    if (error != 0) return FileError("list", path, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<bool> Exists(const std::string& path) override {
    struct stat info;
    if (stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return FileError("stat", path, errno);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return FileError("rename", absl::StrCat(from, " to ", to), errno);
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return absl::OkStatus();
    // Linux says EISDIR for a directory, POSIX allows EPERM.
    if ((errno == EISDIR || errno == EPERM) && rmdir(path.c_str()) == 0) return absl::OkStatus();
    return FileError("remove", path, errno);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const int fd = OpenRetrying(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return FileError("open directory", path, errno);
    const int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return error == 0 ? absl::OkStatus() : FileError("fsync directory", path, error);
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    const int fd = OpenRetrying(path, O_RDWR | O_CREAT);
    if (fd < 0) return FileError("open lock file", path, errno);
    // An open-file-description lock: it conflicts with the POSIX locks that
    // other programs take on the same file (Java's FileChannel.tryLock), and,
    // unlike those, also within one process, and no unrelated close drops it.
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return std::make_unique<PosixFileLock>(fd, path);
    const int error = errno;
    close(fd);
    if (error != EAGAIN && error != EACCES) return FileError("lock", path, error);
    return absl::FailedPreconditionError(
        absl::StrCat("lock ", path, ": held by another process that uses this directory"));
  }

 private:
  ResidencyProbe probe_;
};

std::string ParentOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(path.substr(0, slash));
}

}  // namespace

absl::StatusOr<std::string> FileSystem::ReadFile(const std::string& path) {
  absl::StatusOr<FileRef> file = Open(path, OpenMode::kRead);
  if (!file.ok()) return file.status();
  std::string content;
  // Until the end rather than by size: the size of some files (/proc) is 0.
  for (;;) {
    constexpr size_t kChunkBytes = 64 * 1024;
    const size_t old_size = content.size();
    content.resize(old_size + kChunkBytes);
    const IoResult result =
        (*file)->ReadAt(static_cast<int64_t>(old_size), content.data() + old_size, kChunkBytes);
    if (!result.ok()) return FileError("read", path, result.error());
    content.resize(old_size + static_cast<size_t>(result.bytes()));
    if (result.bytes() == 0) return content;
  }
}

absl::Status FileSystem::WriteFileAtomically(const std::string& path, absl::string_view content) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  absl::StatusOr<FileRef> file = Open(temporary, OpenMode::kCreate);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Truncate(0);
  if (status.ok()) status = (*file)->WriteAll(0, content.data(), content.size());
  if (status.ok()) status = (*file)->Sync();
  if (status.ok()) status = Rename(temporary, path);
  if (!status.ok()) {
    Remove(temporary).IgnoreError();
    return status;
  }
  return SyncDirectory(ParentOf(path));
}

absl::Status FileSystem::RemoveRecursively(const std::string& path) {
  // Removing first and listing only what refuses to go never follows a
  // symbolic link.
  const absl::Status removed = Remove(path);
  if (removed.ok() || absl::IsNotFound(removed)) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> names = List(path);
  if (!names.ok() || names->empty()) return removed;
  for (const std::string& name : *names) {
    const absl::Status status = RemoveRecursively(absl::StrCat(path, "/", name));
    if (!status.ok()) return status;
  }
  return Remove(path);
}

std::unique_ptr<FileSystem> FileSystem::NewReal(const RealFileSystemOptions& options) {
  return std::make_unique<PosixFileSystem>(options.use_cachestat);
}

FileSystem& FileSystem::Real() {
  static FileSystem* const file_system = new PosixFileSystem(/*use_cachestat=*/true);
  return *file_system;
}

}  // namespace gyre
