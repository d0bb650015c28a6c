#include "engine/fs/fault_injecting_file_system.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using Operation = Fault::Operation;

class FaultInjectingFileSystemTest : public ::testing::Test {
 protected:
  FileRef MustOpen(const std::string& path, OpenMode mode) {
    absl::StatusOr<FileRef> file = disk_.Open(path, mode);
    EXPECT_TRUE(file.ok()) << file.status();
    return *file;
  }
  // A file whose content and name are durable.
  FileRef DurableFile(const std::string& path, const std::string& content) {
    const FileRef file = MustOpen(path, OpenMode::kCreate);
    EXPECT_TRUE(file->WriteAll(0, content.data(), content.size()).ok());
    EXPECT_TRUE(file->Sync().ok());
    EXPECT_TRUE(disk_.SyncDirectory("/").ok());
    return file;
  }
  static IoResult Write(const FileRef& file, int64_t position, const std::string& bytes) {
    const iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
    return file->WriteVAt(position, &part, 1);
  }
  std::string Read(const std::string& path) {
    absl::StatusOr<std::string> content = disk_.ReadFile(path);
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }

  FaultInjectingFileSystem disk_{1};
};

TEST_F(FaultInjectingFileSystemTest, UnsyncedBytesAreLostWithThePower) {
  const FileRef file = DurableFile("/f", "durable");
  Write(file, 7, " and not");
  Write(file, 0, "DUR");
  EXPECT_EQ(Read("/f"), "DURable and not");
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "durable");
}

TEST_F(FaultInjectingFileSystemTest, WhenOnlyTheProcessDiesUnsyncedBytesStayAndStayUnsynced) {
  const FileRef file = DurableFile("/f", "durable");
  Write(file, 7, " and not");
  MustOpen("/g", OpenMode::kCreateNew);
  disk_.PowerLoss(PowerLossMode::kKeepEverything);
  char byte;
  EXPECT_EQ(file->ReadAt(0, &byte, 1), IoResult::Error(ESTALE));
  EXPECT_EQ(Read("/f"), "durable and not");
  EXPECT_TRUE(*disk_.Exists("/g"));
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "durable");
  EXPECT_FALSE(*disk_.Exists("/g"));
}

TEST_F(FaultInjectingFileSystemTest, AnUnsyncedTruncateIsUndone) {
  const FileRef file = DurableFile("/f", "durable");
  ASSERT_TRUE(file->Truncate(2).ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "durable");
}

TEST_F(FaultInjectingFileSystemTest, ASyncedTruncateThenWriteStays) {
  const FileRef file = DurableFile("/f", "durable");
  ASSERT_TRUE(file->Truncate(2).ok());
  Write(file, 2, "!");
  ASSERT_TRUE(file->Sync().ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "du!");
}

TEST_F(FaultInjectingFileSystemTest, SyncingANewFileDoesNotMakeItsNameDurable) {
  const FileRef file = MustOpen("/f", OpenMode::kCreateNew);
  Write(file, 0, "x");
  ASSERT_TRUE(file->Sync().ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_FALSE(*disk_.Exists("/f"));
}

TEST_F(FaultInjectingFileSystemTest, ADurableNameOfUnsyncedBytesIsAnEmptyFile) {
  const FileRef file = MustOpen("/f", OpenMode::kCreateNew);
  Write(file, 0, "x");
  ASSERT_TRUE(disk_.SyncDirectory("/").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "");
}

TEST_F(FaultInjectingFileSystemTest, AnUnsyncedDirectoryTakesItsFilesAlong) {
  ASSERT_TRUE(disk_.CreateDirectory("/d").ok());
  const FileRef file = MustOpen("/d/f", OpenMode::kCreateNew);
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(disk_.SyncDirectory("/d").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_FALSE(*disk_.Exists("/d"));
}

TEST_F(FaultInjectingFileSystemTest, AnUnsyncedRenameIsUndoneAsAWhole) {
  DurableFile("/from", "new");
  DurableFile("/to", "old");
  ASSERT_TRUE(disk_.Rename("/from", "/to").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/from"), "new");
  EXPECT_EQ(Read("/to"), "old");
}

TEST_F(FaultInjectingFileSystemTest, AnUnsyncedRemoveBringsTheFileBack) {
  DurableFile("/f", "x");
  ASSERT_TRUE(disk_.Remove("/f").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "x");
}

TEST_F(FaultInjectingFileSystemTest, SyncedDirectoryChangesStay) {
  DurableFile("/a", "a");
  DurableFile("/b", "b");
  ASSERT_TRUE(disk_.Rename("/a", "/c").ok());
  ASSERT_TRUE(disk_.Remove("/b").ok());
  ASSERT_TRUE(disk_.SyncDirectory("/").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(*disk_.List("/"), std::vector<std::string>{"c"});
}

TEST_F(FaultInjectingFileSystemTest, ARenameAcrossDirectoriesNeedsBothSyncs) {
  ASSERT_TRUE(disk_.CreateDirectory("/d").ok());
  DurableFile("/f", "x");
  ASSERT_TRUE(disk_.Rename("/f", "/d/f").ok());
  ASSERT_TRUE(disk_.SyncDirectory("/d").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_TRUE(*disk_.Exists("/f"));
  EXPECT_TRUE(*disk_.Exists("/d/f"));
}

TEST_F(FaultInjectingFileSystemTest, WhatWasOpenIsDeadAfterAPowerLoss) {
  const FileRef file = DurableFile("/f", "x");
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  char byte;
  EXPECT_EQ(file->ReadAt(0, &byte, 1), IoResult::Error(ESTALE));
  EXPECT_EQ(Write(file, 0, "y"), IoResult::Error(ESTALE));
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_FALSE(file->Truncate(0).ok());
  EXPECT_FALSE(file->SizeBytes().ok());
  EXPECT_EQ(Read("/f"), "x");
}

TEST_F(FaultInjectingFileSystemTest, LocksAreGoneAfterAPowerLossAndAnOldOneDoesNotUnlock) {
  auto before = disk_.Lock("/.lock");
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(disk_.SyncDirectory("/").ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  const auto after = disk_.Lock("/.lock");
  ASSERT_TRUE(after.ok()) << after.status();
  before->reset();
  EXPECT_FALSE(disk_.Lock("/.lock").ok());
}

TEST_F(FaultInjectingFileSystemTest, AtomicWritesSurviveAPowerLossAtEveryPoint) {
  ASSERT_TRUE(disk_.WriteFileAtomically("/f", "old").ok());
  uint64_t crashes = 0;
  for (uint64_t nth = 1;; ++nth) {
    for (const PowerLossMode mode :
         {PowerLossMode::kDropUnsynced, PowerLossMode::kKeepPrefix, PowerLossMode::kKeepSubset}) {
      disk_.PowerOffAt(nth);
      const bool finished = disk_.WriteFileAtomically("/f", "new").ok();
      disk_.PowerLoss(mode);
      const std::string content = Read("/f");
      if (finished) {
        EXPECT_EQ(content, "new");
        EXPECT_GE(crashes, 5u) << "create, write, sync, rename, directory sync";
        return;
      }
      ++crashes;
      EXPECT_TRUE(content == "old" || content == "new") << content;
      ASSERT_TRUE(disk_.WriteFileAtomically("/f", "old").ok());
    }
  }
}

TEST_F(FaultInjectingFileSystemTest, ALyingSyncIsFoundOutByAPowerLoss) {
  disk_.SetSyncDisabled(true);
  DurableFile("/f", "claimed to be durable");
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "");
  disk_.SetSyncDisabled(false);
  disk_.SetSyncDirectoryDisabled(true);
  DurableFile("/g", "x");
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_FALSE(*disk_.Exists("/g"));
}

TEST_F(FaultInjectingFileSystemTest, PowerOffStopsEveryLaterChange) {
  const FileRef file = DurableFile("/f", "abc");
  disk_.PowerOffAt(2);
  EXPECT_TRUE(Write(file, 0, "x").ok());
  EXPECT_EQ(Write(file, 1, "y"), IoResult::Error(EIO));
  EXPECT_TRUE(disk_.powered_off());
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_FALSE(disk_.Remove("/f").ok());
  EXPECT_FALSE(disk_.CreateDirectory("/d").ok());
  EXPECT_FALSE(disk_.Open("/f", OpenMode::kRead).ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_FALSE(disk_.powered_off());
  EXPECT_EQ(Read("/f"), "abc");
}

TEST_F(FaultInjectingFileSystemTest, APrefixNeverHoldsALaterWriteWithoutAnEarlierOne) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    FaultInjectingFileSystem disk(seed);
    const absl::StatusOr<FileRef> file = disk.Open("/f", OpenMode::kCreate);
    ASSERT_TRUE(disk.SyncDirectory("/").ok());
    for (int i = 0; i < 4; ++i) Write(*file, 4 * i, "abcd");
    disk.PowerLoss(PowerLossMode::kKeepPrefix);
    const std::string content = *disk.ReadFile("/f");
    EXPECT_EQ(content, std::string("abcdabcdabcdabcd").substr(0, content.size()));
    outcomes.insert(content);
  }
  EXPECT_GT(outcomes.size(), 10u) << "cuts in the middle of writes, too";
}

TEST_F(FaultInjectingFileSystemTest, ASubsetTearsWritesIntoSectors) {
  bool hole = false;
  std::set<size_t> sizes;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    FaultInjectingFileSystem disk(seed);
    const absl::StatusOr<FileRef> file = disk.Open("/f", OpenMode::kCreate);
    ASSERT_TRUE(disk.SyncDirectory("/").ok());
    Write(*file, 100, std::string(2000, 'x'));
    disk.PowerLoss(PowerLossMode::kKeepSubset);
    const std::string content = *disk.ReadFile("/f");
    sizes.insert(content.size());
    for (size_t i = 100; i < content.size(); ++i) {
      ASSERT_TRUE(content[i] == 'x' || content[i] == '\0');
      if (i % 512 != 0 && i > 100) {
        ASSERT_EQ(content[i], content[i - 1]) << "torn inside a sector at " << i;
      }
      hole = hole || content[i] == '\0';
    }
  }
  EXPECT_TRUE(hole);
  EXPECT_EQ(sizes, (std::set<size_t>{0, 512, 1024, 1536, 2048, 2100}));
}

TEST_F(FaultInjectingFileSystemTest, TheSameSeedForgetsTheSame) {
  const auto run = [](uint64_t seed) {
    FaultInjectingFileSystem disk(seed);
    const absl::StatusOr<FileRef> file = disk.Open("/f", OpenMode::kCreate);
    EXPECT_TRUE(disk.SyncDirectory("/").ok());
    for (int i = 0; i < 20; ++i) Write(*file, 300 * i, std::string(300, static_cast<char>(i)));
    disk.PowerLoss(PowerLossMode::kKeepSubset);
    return *disk.ReadFile("/f");
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST_F(FaultInjectingFileSystemTest, TheNthOperationFailsOnce) {
  const FileRef file = DurableFile("/f", "");
  disk_.InjectFault({.operation = Operation::kWrite, .nth = 2, .error = EIO});
  EXPECT_TRUE(Write(file, 0, "a").ok());
  EXPECT_EQ(Write(file, 1, "b"), IoResult::Error(EIO));
  EXPECT_TRUE(Write(file, 1, "c").ok());
  EXPECT_EQ(Read("/f"), "ac");
}

TEST_F(FaultInjectingFileSystemTest, FaultsOfOnePathLeaveOthersAlone) {
  const FileRef bad = DurableFile("/bad.log", "");
  const FileRef good = DurableFile("/good.log", "");
  disk_.InjectFault(
      {.operation = Operation::kSync, .error = EIO, .permanent = true, .path_contains = "bad"});
  EXPECT_TRUE(good->Sync().ok());
  EXPECT_FALSE(bad->Sync().ok());
  EXPECT_FALSE(bad->Sync().ok());
  disk_.ClearFaults();
  EXPECT_TRUE(bad->Sync().ok());
}

TEST_F(FaultInjectingFileSystemTest, ASyncThatFailedIsNotMadeGoodByTheNextOne) {
  const FileRef file = DurableFile("/f", "old");
  Write(file, 0, "new");
  disk_.InjectFault({.operation = Operation::kSync});
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_EQ(Read("/f"), "new") << "still readable";
  EXPECT_TRUE(file->Sync().ok());
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  EXPECT_EQ(Read("/f"), "old");
}

TEST_F(FaultInjectingFileSystemTest, AFullDiskWritesWhatFitsAndThenNothing) {
  const FileRef file = DurableFile("/f", "12345");
  disk_.SetCapacityBytes(8);
  EXPECT_EQ(Write(file, 5, "6789"), IoResult::Bytes(3));
  EXPECT_EQ(Write(file, 8, "9"), IoResult::Error(ENOSPC));
  EXPECT_EQ(Write(file, 0, "in place"), IoResult::Bytes(8)) << "overwriting needs no room";
  EXPECT_TRUE(absl::IsResourceExhausted(file->WriteAll(8, "9", 1)));
  ASSERT_TRUE(file->Truncate(2).ok());
  EXPECT_TRUE(Write(file, 2, "abc").ok());
}

TEST_F(FaultInjectingFileSystemTest, ShortReadsAndWritesMoveAtLeastOneByte) {
  const FileRef file = DurableFile("/f", "");
  disk_.SetShortIoOneIn(1);
  const std::string content(1000, 'z');
  const IoResult written = Write(file, 0, content);
  EXPECT_GT(written.bytes(), 0);
  EXPECT_LT(written.bytes(), 1000);
  ASSERT_TRUE(file->WriteAll(0, content.data(), content.size()).ok());
  std::string back(1000, '.');
  const IoResult read = file->ReadAt(0, back.data(), back.size());
  EXPECT_GT(read.bytes(), 0);
  EXPECT_LT(read.bytes(), 1000);
  ASSERT_TRUE(file->ReadExactly(0, back.data(), back.size()).ok());
  EXPECT_EQ(back, content);
}

TEST_F(FaultInjectingFileSystemTest, ResidencyIsWhatTheTestSays) {
  const FileRef file = DurableFile("/f", "x");
  EXPECT_TRUE(file->IsResident(0, 1));
  disk_.SetResident(false);
  EXPECT_FALSE(file->IsResident(0, 1));
}

TEST_F(FaultInjectingFileSystemTest, CountsSyncs) {
  const FileRef file = DurableFile("/f", "x");
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(disk_.sync_count(), 2u);
  EXPECT_EQ(disk_.sync_directory_count(), 1u);
}

TEST_F(FaultInjectingFileSystemTest, ManyThreadsMayUseIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const FileRef file = MustOpen(absl::StrCat("/f", t), OpenMode::kCreate);
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(Write(file, i, "x").ok());
        EXPECT_TRUE(file->Sync().ok());
      }
      EXPECT_TRUE(disk_.SyncDirectory("/").ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  for (int t = 0; t < 4; ++t) EXPECT_EQ(Read(absl::StrCat("/f", t)), std::string(200, 'x'));
}

}  // namespace
}  // namespace gyre
