// What every FileSystem does, asked of the kernel's and of the one in memory.
#include "engine/fs/file_system.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct RealDisk {
  RealDisk() : file_system(FileSystem::NewReal({})) {
    const char* base = std::getenv("TEST_TMPDIR");
    root = absl::StrCat(base != nullptr ? base : "/tmp", "/fs.XXXXXX");
    EXPECT_NE(mkdtemp(root.data()), nullptr);
  }
  ~RealDisk() { EXPECT_TRUE(file_system->RemoveRecursively(root).ok()); }
  std::unique_ptr<FileSystem> file_system;
  std::string root;
};

struct MemoryDisk {
  MemoryDisk() : file_system(std::make_unique<FaultInjectingFileSystem>(1)), root("/data") {
    EXPECT_TRUE(file_system->CreateDirectory(root).ok());
  }
  std::unique_ptr<FileSystem> file_system;
  std::string root;
};

template <typename Disk>
class FileSystemTest : public ::testing::Test {
 protected:
  FileSystem& fs() { return *disk_.file_system; }
  std::string Path(const std::string& name) const { return absl::StrCat(disk_.root, "/", name); }
  FileRef MustOpen(const std::string& name, OpenMode mode) {
    absl::StatusOr<FileRef> file = fs().Open(Path(name), mode);
    EXPECT_TRUE(file.ok()) << file.status();
    return *file;
  }
  void Write(const std::string& name, const std::string& content) {
    const FileRef file = MustOpen(name, OpenMode::kCreate);
    EXPECT_TRUE(file->WriteAll(0, content.data(), content.size()).ok());
  }
  std::string Read(const std::string& name) {
    absl::StatusOr<std::string> content = fs().ReadFile(Path(name));
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }
  std::vector<std::string> List(const std::string& name) {
    absl::StatusOr<std::vector<std::string>> names = fs().List(Path(name));
    EXPECT_TRUE(names.ok()) << names.status();
    return names.value_or(std::vector<std::string>());
  }

  Disk disk_;
};

using Disks = ::testing::Types<RealDisk, MemoryDisk>;
TYPED_TEST_SUITE(FileSystemTest, Disks);
using Names = std::vector<std::string>;

TYPED_TEST(FileSystemTest, AMissingFileIsNotFoundByName) {
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kReadWrite}) {
    const absl::Status status = this->fs().Open(this->Path("none"), mode).status();
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_TRUE(absl::StrContains(status.message(), this->Path("none"))) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "ENOENT")) << status;
  }
}

TYPED_TEST(FileSystemTest, CreateKeepsWhatIsThereAndCreateNewRefusesIt) {
  this->Write("file", "kept");
  EXPECT_TRUE(
      absl::IsAlreadyExists(this->fs().Open(this->Path("file"), OpenMode::kCreateNew).status()));
  this->MustOpen("file", OpenMode::kCreate);
  EXPECT_EQ(this->Read("file"), "kept");
}

TYPED_TEST(FileSystemTest, ADirectoryIsNotAFile) {
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("dir")).ok());
  EXPECT_FALSE(this->fs().Open(this->Path("dir"), OpenMode::kRead).ok());
  EXPECT_FALSE(this->fs().Open(this->Path("dir"), OpenMode::kCreate).ok());
}

TYPED_TEST(FileSystemTest, ReadsAndWritesAtPositions) {
  const FileRef file = this->MustOpen("file", OpenMode::kCreateNew);
  std::string a = "abc";
  std::string b = "defg";
  const iovec parts[2] = {{a.data(), 3}, {b.data(), 4}};
  EXPECT_EQ(file->WriteVAt(5, parts, 2), IoResult::Bytes(7));
  EXPECT_EQ(*file->SizeBytes(), 12);
  char back[20];
  EXPECT_EQ(file->ReadAt(4, back, sizeof(back)), IoResult::Bytes(8));
  EXPECT_EQ(std::string(back, 8), std::string("\0abcdefg", 8));
  EXPECT_EQ(file->ReadAt(12, back, sizeof(back)), IoResult::Bytes(0));
}

TYPED_TEST(FileSystemTest, AFileOpenedForReadingCannotBeWritten) {
  this->Write("file", "x");
  const FileRef file = this->MustOpen("file", OpenMode::kRead);
  char byte = 'y';
  const iovec part = {&byte, 1};
  EXPECT_EQ(file->WriteVAt(0, &part, 1), IoResult::Error(EBADF));
  EXPECT_FALSE(file->Truncate(0).ok());
}

TYPED_TEST(FileSystemTest, TruncateCutsAndExtendsWithZeros) {
  const FileRef file = this->MustOpen("file", OpenMode::kCreate);
  ASSERT_TRUE(file->WriteAll(0, "abcdef", 6).ok());
  ASSERT_TRUE(file->Truncate(3).ok());
  ASSERT_TRUE(file->Truncate(5).ok());
  EXPECT_EQ(this->Read("file"), std::string("abc\0\0", 5));
}

TYPED_TEST(FileSystemTest, ReadExactlySaysWhereAFileEndsTooEarly) {
  const FileRef file = this->MustOpen("file", OpenMode::kCreate);
  ASSERT_TRUE(file->WriteAll(0, "abcdef", 6).ok());
  char back[8];
  EXPECT_TRUE(file->ReadExactly(1, back, 5).ok());
  EXPECT_EQ(std::string(back, 5), "bcdef");
  const absl::Status status = file->ReadExactly(2, back, 8);
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "ends at 6, 4 bytes too early")) << status;
}

TYPED_TEST(FileSystemTest, ListIsSortedAndHasNoDots) {
  for (const char* name : {"b", "c", "a"}) this->Write(name, "");
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("aa")).ok());
  EXPECT_EQ(this->List("."), (Names{"a", "aa", "b", "c"}));
  EXPECT_TRUE(absl::IsNotFound(this->fs().List(this->Path("none")).status()));
  EXPECT_FALSE(this->fs().List(this->Path("a")).ok());
}

TYPED_TEST(FileSystemTest, CreateDirectoryTwiceIsFineOverAFileIsNot) {
  EXPECT_TRUE(this->fs().CreateDirectory(this->Path("dir")).ok());
  EXPECT_TRUE(this->fs().CreateDirectory(this->Path("dir")).ok());
  this->Write("file", "");
  EXPECT_TRUE(absl::IsAlreadyExists(this->fs().CreateDirectory(this->Path("file"))));
  EXPECT_TRUE(absl::IsNotFound(this->fs().CreateDirectory(this->Path("none/dir"))));
}

TYPED_TEST(FileSystemTest, ExistsTellsFilesAndDirectoriesFromNothing) {
  this->Write("file", "");
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("dir")).ok());
  EXPECT_TRUE(*this->fs().Exists(this->Path("file")));
  EXPECT_TRUE(*this->fs().Exists(this->Path("dir")));
  EXPECT_FALSE(*this->fs().Exists(this->Path("none")));
  EXPECT_FALSE(*this->fs().Exists(this->Path("file/below")));
}

TYPED_TEST(FileSystemTest, RenameReplacesAFile) {
  this->Write("from", "new");
  this->Write("to", "old");
  EXPECT_TRUE(this->fs().Rename(this->Path("from"), this->Path("to")).ok());
  EXPECT_EQ(this->List("."), Names{"to"});
  EXPECT_EQ(this->Read("to"), "new");
  EXPECT_TRUE(absl::IsNotFound(this->fs().Rename(this->Path("from"), this->Path("to"))));
}

TYPED_TEST(FileSystemTest, RenameMovesADirectoryWithItsContent) {
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("a")).ok());
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("b")).ok());
  this->Write("a/file", "x");
  EXPECT_FALSE(this->fs().Rename(this->Path("b"), this->Path("a")).ok()) << "not empty";
  EXPECT_FALSE(this->fs().Rename(this->Path("a"), this->Path("a/below")).ok());
  EXPECT_TRUE(this->fs().Rename(this->Path("a"), this->Path("b/moved")).ok());
  EXPECT_EQ(this->List("."), Names{"b"});
  EXPECT_EQ(this->Read("b/moved/file"), "x");
}

TYPED_TEST(FileSystemTest, RemoveTakesFilesAndEmptyDirectoriesOnly) {
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("dir")).ok());
  this->Write("dir/file", "");
  EXPECT_FALSE(this->fs().Remove(this->Path("dir")).ok());
  EXPECT_TRUE(this->fs().Remove(this->Path("dir/file")).ok());
  EXPECT_TRUE(this->fs().Remove(this->Path("dir")).ok());
  EXPECT_TRUE(absl::IsNotFound(this->fs().Remove(this->Path("dir"))));
}

TYPED_TEST(FileSystemTest, RemoveRecursivelyLeavesNothing) {
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("dir")).ok());
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("dir/sub")).ok());
  this->Write("dir/sub/file", "");
  this->Write("dir/file", "");
  EXPECT_TRUE(this->fs().RemoveRecursively(this->Path("dir")).ok());
  EXPECT_EQ(this->List("."), Names{});
  EXPECT_TRUE(this->fs().RemoveRecursively(this->Path("dir")).ok()) << "nothing there";
}

TYPED_TEST(FileSystemTest, AnOpenFileOutlivesItsName) {
  this->Write("file", "still here");
  const FileRef file = this->MustOpen("file", OpenMode::kReadWrite);
  ASSERT_TRUE(this->fs().Remove(this->Path("file")).ok());
  char back[10];
  EXPECT_TRUE(file->ReadExactly(0, back, 10).ok());
  EXPECT_EQ(std::string(back, 10), "still here");
}

TYPED_TEST(FileSystemTest, WritesAFileAtomicallyAndLeavesNoTemporary) {
  EXPECT_TRUE(this->fs().WriteFileAtomically(this->Path("file"), "first").ok());
  EXPECT_TRUE(this->fs().WriteFileAtomically(this->Path("file"), "2nd").ok());
  EXPECT_EQ(this->Read("file"), "2nd");
  EXPECT_EQ(this->List("."), Names{"file"});
}

TYPED_TEST(FileSystemTest, SyncsFilesAndDirectories) {
  const FileRef file = this->MustOpen("file", OpenMode::kCreate);
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_TRUE(this->fs().SyncDirectory(this->Path(".")).ok());
  EXPECT_TRUE(absl::IsNotFound(this->fs().SyncDirectory(this->Path("none"))));
  EXPECT_FALSE(this->fs().SyncDirectory(this->Path("file")).ok());
}

TYPED_TEST(FileSystemTest, ALockIsHeldByOneAndFreedWithIt) {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = this->fs().Lock(this->Path(".lock"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status second = this->fs().Lock(this->Path(".lock")).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(second.message(), ".lock"));
  lock->reset();
  EXPECT_TRUE(this->fs().Lock(this->Path(".lock")).ok());
}

TYPED_TEST(FileSystemTest, ALockKnowsWhetherItsFileIsStillThere) {
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("held")).ok());
  const auto lock = this->fs().Lock(this->Path("held/.lock"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE((*lock)->CheckStillThere().ok()) << (*lock)->CheckStillThere();
  ASSERT_TRUE(this->fs().Rename(this->Path("held"), this->Path("away")).ok());
  EXPECT_TRUE(absl::IsNotFound((*lock)->CheckStillThere())) << (*lock)->CheckStillThere();
  ASSERT_TRUE(this->fs().CreateDirectory(this->Path("held")).ok());
  this->Write("held/.lock", "");
  EXPECT_TRUE(absl::IsNotFound((*lock)->CheckStillThere())) << "another file in its place";
  ASSERT_TRUE(this->fs().RemoveRecursively(this->Path("held")).ok());
  ASSERT_TRUE(this->fs().Rename(this->Path("away"), this->Path("held")).ok());
  EXPECT_TRUE((*lock)->CheckStillThere().ok()) << (*lock)->CheckStillThere();
  ASSERT_TRUE(this->fs().RemoveRecursively(this->Path("held")).ok());
  this->Write("held", "a file where the directory was");
  EXPECT_TRUE(absl::IsNotFound((*lock)->CheckStillThere())) << (*lock)->CheckStillThere();
}

TYPED_TEST(FileSystemTest, FreshlyWrittenBytesAreResident) {
  this->Write("file", std::string(100'000, 'x'));
  const FileRef file = this->MustOpen("file", OpenMode::kRead);
  EXPECT_TRUE(file->IsResident(0, 100'000));
  EXPECT_TRUE(file->IsResident(4095, 2));
  EXPECT_TRUE(file->IsResident(0, 0));
}

}  // namespace
}  // namespace gyre
