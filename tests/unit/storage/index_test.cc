#include <string>

#include "engine/base/random.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "engine/storage/offset_index.h"
#include "engine/storage/time_index.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

class IndexTest : public testing::Test {
 protected:
  FileRef Open(const char* path = "/index") { return *disk_.Open(path, OpenMode::kCreate); }
  int64_t SizeOf(const char* path = "/index") { return *Open(path)->SizeBytes(); }

  FaultInjectingFileSystem disk_{1};
};

TEST_F(IndexTest, AnEmptyIndexPointsAtTheStart) {
  OffsetIndex index(100);
  ASSERT_TRUE(index.Reset(Open()).ok());
  EXPECT_EQ(index.Lookup(150), (OffsetPosition{100, 0}));
  EXPECT_EQ(index.LookupPosition(5), (OffsetPosition{100, 0}));
}

// Every lookup against a linear search, over sizes around the block size.
TEST_F(IndexTest, LookupsAgreeWithALinearSearch) {
  for (const int count : {1, 2, 511, 512, 513, 1024, 3000}) {
    OffsetIndex index(1000);
    ASSERT_TRUE(index.Reset(Open()).ok());
    Random random(static_cast<uint64_t>(count));
    std::vector<OffsetPosition> entries;
    OffsetPosition last{1000, 0};
    for (int i = 0; i < count; ++i) {
      last.offset += random.Between(1, 5);
      last.position += random.Between(1, 9);
      entries.push_back(last);
      index.Append(last.offset, last.position);
    }
    EXPECT_EQ(index.entry_count(), count);
    EXPECT_EQ(index.Last(), last);
    for (int i = 0; i < 500; ++i) {
      const int64_t offset = random.Between(1000, last.offset + 3);
      const int64_t position = random.Between(0, last.position + 3);
      OffsetPosition by_offset{1000, 0};
      OffsetPosition by_position{1000, 0};
      for (const OffsetPosition& entry : entries) {
        if (entry.offset <= offset) by_offset = entry;
        if (entry.position <= position) by_position = entry;
      }
      EXPECT_EQ(index.Lookup(offset), by_offset) << count;
      EXPECT_EQ(index.LookupPosition(position), by_position) << count;
    }
  }
}

TEST_F(IndexTest, TheFileHoldsExactlyTheEntriesAfterAFlush) {
  OffsetIndex index(0);
  ASSERT_TRUE(index.Reset(Open()).ok());
  for (int i = 1; i <= 700; ++i) index.Append(i, i);
  EXPECT_EQ(SizeOf(), 512 * 8);
  ASSERT_TRUE(index.Flush().ok());
  EXPECT_EQ(SizeOf(), 700 * 8);
  for (int i = 701; i <= 1100; ++i) index.Append(i, i);
  ASSERT_TRUE(index.Flush().ok());
  OffsetIndex again(0);
  ASSERT_TRUE(again.Load(Open(), 2000).ok());
  EXPECT_EQ(again.entry_count(), 1100);
  for (int i = 1; i <= 1100; ++i) EXPECT_EQ(again.Lookup(i), (OffsetPosition{i, i}));
}

TEST_F(IndexTest, TruncationKeepsWhatLiesBelow) {
  for (const int64_t offset : {1, 2, 300, 512, 513, 514, 1000, 1500}) {
    OffsetIndex index(0);
    ASSERT_TRUE(index.Reset(Open()).ok());
    for (int i = 1; i <= 1400; ++i) index.Append(i, i);
    ASSERT_TRUE(index.TruncateTo(offset).ok());
    EXPECT_EQ(index.entry_count(), std::min<int64_t>(offset - 1, 1400));
    index.Append(5000, 5000);
    EXPECT_EQ(index.Lookup(4999).offset, std::min<int64_t>(offset - 1, 1400));
    EXPECT_EQ(index.Lookup(5000).offset, 5000);
  }
}

TEST_F(IndexTest, AnIndexThatCannotBeIsRefused) {
  const auto load = [&](const std::string& bytes, int64_t log_bytes) {
    FileRef file = Open();
    EXPECT_TRUE(file->Truncate(0).ok());
    EXPECT_TRUE(file->WriteAll(0, bytes.data(), bytes.size()).ok());
    OffsetIndex index(0);
    return index.Load(file, log_bytes);
  };
  const std::string one("\0\0\0\1\0\0\0\2", 8);
  const std::string two("\0\0\0\2\0\0\0\3", 8);
  EXPECT_TRUE(load(one + two, 4).ok());
  EXPECT_TRUE(absl::IsDataLoss(load(one + two, 3)));        // beyond the log
  EXPECT_TRUE(absl::IsDataLoss(load(two + one, 4)));        // falling
  EXPECT_TRUE(absl::IsDataLoss(load(one + two + "x", 4)));  // no whole entry
  // A preallocated file that was never trimmed.
  EXPECT_TRUE(absl::IsDataLoss(load(one + std::string(4096 * 8 - 8, '\0'), 4000)));
}

TEST_F(IndexTest, AFailedWriteEndsTheIndexButNotTheLookups) {
  OffsetIndex index(0);
  ASSERT_TRUE(index.Reset(Open()).ok());
  for (int i = 1; i <= 600; ++i) index.Append(i, i);
  disk_.InjectFault({Fault::Operation::kWrite, 1, 5, true, {}});
  for (int i = 601; i <= 2000; ++i) index.Append(i, i);
  EXPECT_EQ(index.Lookup(300).offset, 300);
  EXPECT_LE(index.Lookup(1999).offset, 1024);
  EXPECT_GE(index.Lookup(1999).offset, 600);
}

TEST_F(IndexTest, TimeIndexTakesOnlyRisingTimestamps) {
  TimeIndex index(10);
  ASSERT_TRUE(index.Reset(Open()).ok());
  index.MaybeAppend(-1, 10);
  EXPECT_EQ(index.entry_count(), 0);
  index.MaybeAppend(100, 12);
  index.MaybeAppend(100, 15);
  index.MaybeAppend(90, 16);
  index.MaybeAppend(200, 20);
  EXPECT_EQ(index.entry_count(), 2);
  EXPECT_EQ(index.Last(), (TimestampOffset{200, 20}));
  EXPECT_EQ(index.LookupBelow(100), (TimestampOffset{-1, 10}));
  EXPECT_EQ(index.LookupBelow(101), (TimestampOffset{100, 12}));
  EXPECT_EQ(index.LookupBelow(201), (TimestampOffset{200, 20}));
  ASSERT_TRUE(index.Flush().ok());
  TimeIndex again(10);
  ASSERT_TRUE(again.Load(Open()).ok());
  EXPECT_EQ(again.Last(), (TimestampOffset{200, 20}));
}

}  // namespace
}  // namespace gyre
