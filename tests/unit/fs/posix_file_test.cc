// What only the kernel's files have: descriptors, and pages that leave memory.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/fs/file_system.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

class PosixFileTest : public ::testing::TestWithParam<bool> {
 protected:
  PosixFileTest() : fs_(FileSystem::NewReal({.use_cachestat = GetParam()})) {
    const char* base = std::getenv("TEST_TMPDIR");
    root_ = absl::StrCat(base != nullptr ? base : "/tmp", "/posix.XXXXXX");
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~PosixFileTest() override { EXPECT_TRUE(fs_->RemoveRecursively(root_).ok()); }

  FileRef NewFile(size_t size_bytes) {
    const absl::StatusOr<FileRef> file = fs_->Open(absl::StrCat(root_, "/file"), OpenMode::kCreate);
    EXPECT_TRUE(file.ok()) << file.status();
    const std::string content(size_bytes, 'x');
    EXPECT_TRUE((*file)->WriteAll(0, content.data(), content.size()).ok());
    EXPECT_TRUE((*file)->Sync().ok());
    return *file;
  }

  std::unique_ptr<FileSystem> fs_;
  std::string root_;
};

INSTANTIATE_TEST_SUITE_P(Probes, PosixFileTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "Cachestat" : "Mincore";
                         });

TEST_P(PosixFileTest, DroppedPagesAreNotResident) {
  const FileRef file = NewFile(1 << 20);
  EXPECT_TRUE(file->IsResident(0, 1 << 20));
  ASSERT_EQ(posix_fadvise(file->fd(), 0, 1 << 20, POSIX_FADV_DONTNEED), 0);
  if (file->IsResident(0, 1 << 20)) GTEST_SKIP() << "this file system keeps its pages";
  // Read-ahead off, so that one page comes and no neighbours.
  ASSERT_EQ(posix_fadvise(file->fd(), 0, 0, POSIX_FADV_RANDOM), 0);
  char byte;
  ASSERT_TRUE(file->ReadExactly(512 * 1024, &byte, 1).ok());
  EXPECT_TRUE(file->IsResident(512 * 1024 + 100, 200));
  EXPECT_FALSE(file->IsResident(512 * 1024 - 1, 2)) << "the page before is not there";
}

TEST_P(PosixFileTest, AReadOfResidentPagesIsWholeAndOneOfOthersDoesNotWait) {
  const FileRef file = NewFile(1 << 20);
  std::string read(8192, 0);
  EXPECT_EQ(file->ReadResident(4096, read.data(), read.size()), IoResult::Bytes(8192));
  EXPECT_EQ(read, std::string(8192, 'x'));
  EXPECT_EQ(file->ReadResident((1 << 20) - 10, read.data(), 10), IoResult::Bytes(10));
  EXPECT_EQ(file->ReadResident(1 << 20, read.data(), 10), IoResult::Bytes(0)) << "the end";
  // Twenty tries: the disk may be faster than the call once.
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(posix_fadvise(file->fd(), 0, 1 << 20, POSIX_FADV_DONTNEED), 0);
    if (file->IsResident(0, 1 << 20)) continue;
    const IoResult result = file->ReadResident(0, read.data(), read.size());
    EXPECT_TRUE(result.would_block() || result.bytes() > 0) << result.error();
    if (result.would_block()) ++refused;
  }
  if (refused == 0) GTEST_SKIP() << "this file system keeps its pages";
}

TEST_P(PosixFileTest, DescriptorsAreClosedWithTheLastReferenceAndOnExec) {
  FileRef file = NewFile(1);
  const int fd = file->fd();
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  FileRef second = file;
  file = FileRef();
  EXPECT_NE(fcntl(fd, F_GETFD), -1);
  second = FileRef();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST_P(PosixFileTest, TheLockKeepsOtherProcessesOutAlsoThoseWithPosixLocks) {
  const std::string path = absl::StrCat(root_, "/.lock");
  const auto lock = fs_->Lock(path);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const pid_t child = fork();
  if (child == 0) {
    // As Java's FileChannel.tryLock does.
    const int fd = open(path.c_str(), O_RDWR);
    struct flock posix_lock = {};
    posix_lock.l_type = F_WRLCK;
    _exit(fcntl(fd, F_SETLK, &posix_lock) == -1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_P(PosixFileTest, RemovingALinkLeavesWhatItPointsTo) {
  NewFile(1);
  ASSERT_TRUE(fs_->CreateDirectory(absl::StrCat(root_, "/target")).ok());
  ASSERT_TRUE(fs_->WriteFileAtomically(absl::StrCat(root_, "/target/kept"), "x").ok());
  ASSERT_TRUE(fs_->CreateDirectory(absl::StrCat(root_, "/dir")).ok());
  ASSERT_EQ(symlink("../target", absl::StrCat(root_, "/dir/link").c_str()), 0);
  ASSERT_TRUE(fs_->RemoveRecursively(absl::StrCat(root_, "/dir")).ok());
  EXPECT_TRUE(*fs_->Exists(absl::StrCat(root_, "/target/kept")));
}

TEST_P(PosixFileTest, ReadsFilesThatHaveNoSize) {
  const absl::StatusOr<std::string> content = fs_->ReadFile("/proc/self/status");
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(absl::StrContains(*content, "VmPeak"));
}

}  // namespace
}  // namespace gyre
