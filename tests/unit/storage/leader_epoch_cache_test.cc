#include "engine/storage/leader_epoch_cache.h"

#include "engine/fs/fault_injecting_file_system.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using Entry = LeaderEpochCache::Entry;
using Entries = std::vector<Entry>;

TEST(LeaderEpochCacheTest, EpochsOnlyRise) {
  LeaderEpochCache cache;
  EXPECT_TRUE(cache.Assign(1, 0));
  EXPECT_FALSE(cache.Assign(1, 10));
  EXPECT_FALSE(cache.Assign(0, 10));
  EXPECT_FALSE(cache.Assign(-1, 10));
  EXPECT_TRUE(cache.Assign(3, 10));
  EXPECT_EQ(cache.entries(), (Entries{{1, 0}, {3, 10}}));
}

TEST(LeaderEpochCacheTest, AnEpochThatWroteNothingIsReplaced) {
  LeaderEpochCache cache;
  cache.Assign(1, 0);
  cache.Assign(2, 10);
  cache.Assign(3, 10);
  EXPECT_EQ(cache.entries(), (Entries{{1, 0}, {3, 10}}));
}

TEST(LeaderEpochCacheTest, EndOffsets) {
  LeaderEpochCache cache;
  EXPECT_EQ(cache.EndOffsetFor(0, 5), EpochEndOffset());
  cache.Assign(2, 10);
  cache.Assign(4, 20);
  EXPECT_EQ(cache.EndOffsetFor(-1, 30), EpochEndOffset());
  EXPECT_EQ(cache.EndOffsetFor(1, 30), (EpochEndOffset{1, 10}));
  EXPECT_EQ(cache.EndOffsetFor(2, 30), (EpochEndOffset{2, 20}));
  EXPECT_EQ(cache.EndOffsetFor(3, 30), (EpochEndOffset{2, 20}));
  EXPECT_EQ(cache.EndOffsetFor(4, 30), (EpochEndOffset{4, 30}));
  EXPECT_EQ(cache.EndOffsetFor(5, 30), EpochEndOffset());
  EXPECT_EQ(cache.EpochOf(9), -1);
  EXPECT_EQ(cache.EpochOf(10), 2);
  EXPECT_EQ(cache.EpochOf(19), 2);
  EXPECT_EQ(cache.EpochOf(20), 4);
}

TEST(LeaderEpochCacheTest, TheFileIsKafkas) {
  FaultInjectingFileSystem disk(1);
  LeaderEpochCache cache;
  cache.Assign(0, 0);
  cache.Assign(5, 100);
  ASSERT_TRUE(cache.Persist(disk, "/epochs").ok());
  EXPECT_EQ(*disk.ReadFile("/epochs"), "0\n2\n0 0\n5 100\n");
  LeaderEpochCache again;
  ASSERT_TRUE(again.Load(disk, "/epochs").ok());
  EXPECT_EQ(again.entries(), cache.entries());
}

TEST(LeaderEpochCacheTest, DamagedFilesAreRefused) {
  FaultInjectingFileSystem disk(1);
  LeaderEpochCache cache;
  EXPECT_TRUE(absl::IsNotFound(cache.Load(disk, "/epochs")));
  for (const char* text : {"", "1\n0\n", "0\n1\n", "0\n1\n0\n", "0\n1\n0 x\n", "0\n2\n1 5\n0 9\n",
                           "0\n2\n0 9\n1 5\n"}) {
    ASSERT_TRUE(disk.WriteFileAtomically("/epochs", text).ok());
    EXPECT_TRUE(absl::IsDataLoss(cache.Load(disk, "/epochs"))) << text;
    EXPECT_TRUE(cache.entries().empty());
  }
}

TEST(LeaderEpochCacheTest, TruncationDropsWhatStartsBeyond) {
  LeaderEpochCache cache;
  cache.Assign(0, 0);
  cache.Assign(1, 10);
  EXPECT_FALSE(cache.TruncateFromEnd(11));
  EXPECT_TRUE(cache.TruncateFromEnd(10));
  EXPECT_EQ(cache.entries(), (Entries{{0, 0}}));
}

}  // namespace
}  // namespace gyre
