#include "engine/storage/partition_log.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/base/random.h"
#include "engine/record/compression.h"
#include "engine/storage/batch_cursor.h"
#include "gtest/gtest.h"
#include "tests/unit/storage/storage_test_util.h"

namespace gyre {
namespace {

using Offsets = std::vector<int64_t>;

TEST(PartitionLogTest, AnAppendGetsOffsetsAndTheEpochAndIsReadBack) {
  LogFixture f;
  f.Create();
  EXPECT_EQ(f.Add(MakeBatch("a", 3), 4), 0);
  EXPECT_EQ(f.Add(MakeBatch("b", 2), 4), 3);
  EXPECT_EQ(f.log->log_end_offset(), 5);
  const ReadResult result = f.Read(3);
  ASSERT_EQ(result.error, ErrorCode::kNone);
  const std::string bytes = f.BytesOf(result.slice);
  const RecordBatchView view(bytes);
  EXPECT_EQ(view.base_offset(), 3);
  EXPECT_EQ(view.leader_epoch(), 4);
  EXPECT_EQ(view.crc(), ComputeBatchCrc(bytes));
  EXPECT_EQ(view.record_count(), 2);
  EXPECT_EQ(result.next_offset, 5);
}

TEST(PartitionLogTest, TheCallersBytesAreNotTouched) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  Append append(MakeBatch("b"), 9);
  const std::string before = append.records;
  f.log->Append(&append.request);
  EXPECT_EQ(append.records, before);
}

TEST(PartitionLogTest, AnInvalidBatchIsRefusedAndTakesNoOffset) {
  LogFixture f;
  f.Create();
  std::string bytes = MakeBatch("a");
  bytes.back() ^= 1;
  Append append(bytes);
  f.log->Append(&append.request);
  EXPECT_EQ(append.done_count, 1);
  EXPECT_EQ(append.request.error, ErrorCode::kCorruptMessage);
  EXPECT_EQ(append.request.base_offset, -1);
  EXPECT_EQ(f.log->log_end_offset(), 0);
}

TEST(PartitionLogTest, InGroupModeNothingIsSettledBeforeTheSync) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a", 3));
  EXPECT_EQ(f.log->settled_offset(), 0);
  EXPECT_EQ(f.listener.settled_count, 0);
  f.file_io.RunAll();
  EXPECT_EQ(f.log->settled_offset(), 3);
  EXPECT_EQ(f.listener.last_settled, 3);
}

TEST(PartitionLogTest, WithoutFlushingEveryAppendIsSettledAtOnce) {
  LogFixture f(FlushMode::kNone);
  f.Create();
  f.Add(MakeBatch("a", 3));
  EXPECT_EQ(f.listener.last_settled, 3);
  EXPECT_EQ(f.log->durable_offset(), 0);
  EXPECT_TRUE(f.file_io.idle());
}

TEST(PartitionLogTest, AppendsDuringASyncShareTheNextOne) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  for (int i = 0; i < 100; ++i) f.Add(MakeBatch("b"));
  EXPECT_TRUE(f.file_io.RunOne());
  // The first sync was asked for when one record was there.
  EXPECT_EQ(f.log->durable_offset(), 1);
  EXPECT_TRUE(f.file_io.RunOne());
  EXPECT_EQ(f.log->durable_offset(), 101);
  EXPECT_FALSE(f.file_io.RunOne());
  EXPECT_EQ(f.flusher.sync_count(), 2u);
}

TEST(PartitionLogTest, AFailedSyncTakesTheLogOfflineForGood) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  f.disk.InjectFault({Fault::Operation::kSync});
  f.file_io.RunAll();
  EXPECT_TRUE(f.log->is_offline());
  EXPECT_EQ(f.listener.offline_count, 1);
  EXPECT_EQ(f.log->durable_offset(), 0);
  Append append(MakeBatch("b"));
  f.log->Append(&append.request);
  EXPECT_EQ(append.request.error, ErrorCode::kKafkaStorageError);
  EXPECT_TRUE(f.file_io.idle());
  EXPECT_EQ(f.Read(0).error, ErrorCode::kKafkaStorageError);
}

TEST(PartitionLogTest, AFullDiskRefusesAppendsAndServesReads) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  f.disk.SetCapacityBytes(400);
  Append large(MakeBatch("b", 1, 2000));
  f.log->Append(&large.request);
  EXPECT_EQ(large.request.error, ErrorCode::kKafkaStorageError);
  EXPECT_FALSE(f.log->is_offline());
  EXPECT_EQ(f.BaseOffsets(), (Offsets{0}));
  f.disk.SetCapacityBytes(-1);
  EXPECT_EQ(f.Add(MakeBatch("c")), 1);
  EXPECT_EQ(f.BaseOffsets(), (Offsets{0, 1}));
}

TEST(PartitionLogTest, AFailedWriteTakesTheLogOffline) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  f.disk.InjectFault({Fault::Operation::kWrite});
  Append append(MakeBatch("b"));
  f.log->Append(&append.request);
  EXPECT_EQ(append.request.error, ErrorCode::kKafkaStorageError);
  EXPECT_TRUE(f.log->is_offline());
}

TEST(PartitionLogTest, ShortWritesAreContinued) {
  LogFixture f;
  f.disk.SetShortIoOneIn(1);
  f.Create();
  for (int i = 0; i < 20; ++i) f.Add(MakeBatch(absl::StrCat("batch", i), 3, 100));
  EXPECT_EQ(f.BaseOffsets().size(), 20u);
}

TEST(PartitionLogTest, ReadsReturnWholeBatchesWithinTheLimit) {
  LogFixture f;
  f.Create();
  const int64_t size = static_cast<int64_t>(MakeBatch("a", 2).size());
  for (int i = 0; i < 200; ++i) f.Add(MakeBatch("a", 2));
  for (const int64_t count : {1, 2, 50, 199}) {
    for (const int64_t extra : {int64_t{0}, int64_t{1}, size - 1}) {
      const ReadResult result = f.Read(2, count * size + extra);
      EXPECT_EQ(result.slice.position, size);
      EXPECT_EQ(result.slice.size_bytes, count * size) << count << " " << extra;
      EXPECT_EQ(result.next_offset, 2 + 2 * count);
    }
  }
}

TEST(PartitionLogTest, TheFirstBatchIsReturnedEvenIfLargerThanTheLimit) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a", 2));
  EXPECT_GT(f.Read(0, 1).slice.size_bytes, 1);
  EXPECT_EQ(f.Read(0, 1, INT64_MAX, /*min_one_batch=*/false).slice.size_bytes, 0);
}

TEST(PartitionLogTest, AnOffsetInsideABatchReturnsTheWholeBatch) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a", 5));
  f.Add(MakeBatch("b", 5));
  const ReadResult result = f.Read(7, 1);
  EXPECT_EQ(RecordBatchView(f.BytesOf(result.slice)).base_offset(), 5);
}

TEST(PartitionLogTest, ReadsStopAtTheUpperBound) {
  LogFixture f;
  f.Create();
  for (int i = 0; i < 10; ++i) f.Add(MakeBatch("a", 5));
  EXPECT_EQ(f.Read(0, INT32_MAX, 20).next_offset, 20);
  EXPECT_EQ(f.Read(15, INT32_MAX, 20).next_offset, 20);
  EXPECT_EQ(f.Read(20, INT32_MAX, 20).slice.size_bytes, 0);
  // A bound inside a batch leaves that batch out.
  EXPECT_EQ(f.Read(0, INT32_MAX, 22).next_offset, 20);
  EXPECT_EQ(f.Read(20, INT32_MAX, 22).slice.size_bytes, 0);
  EXPECT_EQ(f.Read(20, INT32_MAX, 22).error, ErrorCode::kNone);
}

TEST(PartitionLogTest, OffsetsOutsideTheLogAreOutOfRange) {
  LogFixture f;
  f.Create();
  EXPECT_EQ(f.Read(0).error, ErrorCode::kNone);
  EXPECT_EQ(f.Read(1).error, ErrorCode::kOffsetOutOfRange);
  f.Add(MakeBatch("a", 5));
  EXPECT_EQ(f.Read(5).error, ErrorCode::kNone);
  EXPECT_EQ(f.Read(6).error, ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(f.Read(-1).error, ErrorCode::kOffsetOutOfRange);
}

TEST(PartitionLogTest, TheLogRollsBySizeAndReadsGoOnInTheNextSegment) {
  LogFixture f;
  f.options.config.segment_bytes = 1000;
  f.Create();
  Offsets expected;
  for (int i = 0; i < 50; ++i) expected.push_back(f.Add(MakeBatch("a", 2)));
  EXPECT_GT(f.log->segment_count(), 5);
  EXPECT_EQ(f.BaseOffsets(), expected);
  for (int64_t offset = 0; offset < 100; ++offset) {
    const ReadResult result = f.Read(offset, 1);
    EXPECT_EQ(RecordBatchView(f.BytesOf(result.slice)).base_offset(), offset / 2 * 2);
  }
}

TEST(PartitionLogTest, TheDurableOffsetPassesARollOnlySegmentBySegment) {
  LogFixture f;
  f.options.config.segment_bytes = 250;
  f.Create();
  for (int i = 0; i < 6; ++i) f.Add(MakeBatch("a", 1, 100));
  ASSERT_EQ(f.log->segment_count(), 6);
  for (int64_t durable = 1; durable <= 6; ++durable) {
    ASSERT_TRUE(f.file_io.RunOne());
    EXPECT_EQ(f.log->durable_offset(), durable);
  }
  EXPECT_TRUE(f.file_io.idle());
}

TEST(PartitionLogTest, ASliceOutlivesTheDeletionOfItsPartition) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  const ReadResult result = f.Read(0);
  ASSERT_TRUE(f.log->MarkDeleted("/data/t-0.x-delete").ok());
  ASSERT_TRUE(f.log->RemoveFiles().ok());
  EXPECT_EQ(CheckBatchShape(f.BytesOf(result.slice)), BatchShape::kOk);
  EXPECT_EQ(f.Read(0).error, ErrorCode::kUnknownTopicOrPartition);
  Append append(MakeBatch("b"));
  f.log->Append(&append.request);
  EXPECT_EQ(append.request.error, ErrorCode::kUnknownTopicOrPartition);
}

TEST(PartitionLogTest, OffsetsAreFoundByTimestampInsideCompressedBatches) {
  for (const Codec codec :
       {Codec::kNone, Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    LogFixture f;
    f.options.config.segment_bytes = 2000;
    f.options.config.index_interval_bytes = 200;
    f.Create();
    BatchOptions options;
    options.codec = codec;
    // Record n has timestamp kTestNow + n.
    for (int i = 0; i < 60; ++i) f.Add(MakeBatch("a", 5, 40, kTestNow + 5 * i, options));
    for (int64_t n = 0; n < 300; ++n) {
      const TimestampResult found = f.log->OffsetForTimestamp(kTestNow + n, INT64_MAX);
      EXPECT_EQ(found.offset, n) << CodecName(codec);
      EXPECT_EQ(found.timestamp, kTestNow + n);
    }
    EXPECT_EQ(f.log->OffsetForTimestamp(0, INT64_MAX).offset, 0);
    EXPECT_EQ(f.log->OffsetForTimestamp(kTestNow + 300, INT64_MAX).offset, -1);
    EXPECT_EQ(f.log->OffsetForTimestamp(kTestNow + 200, 200).offset, -1);
    EXPECT_EQ(f.log->OffsetForTimestamp(kTestNow + 199, 200).offset, 199);
  }
}

TEST(PartitionLogTest, OffsetsAreFoundByTimestampAmongUnorderedOnes) {
  Random random(5);
  LogFixture f;
  f.options.config.segment_bytes = 3000;
  f.options.config.index_interval_bytes = 150;
  f.Create();
  std::vector<int64_t> timestamps;
  for (int i = 0; i < 200; ++i) {
    timestamps.push_back(kTestNow - static_cast<int64_t>(random.Below(1000)));
    f.Add(MakeBatch("a", 1, 30, timestamps.back()));
  }
  for (int64_t ask = kTestNow - 1001; ask <= kTestNow + 1; ++ask) {
    int64_t expected = -1;
    for (size_t i = 0; i < timestamps.size() && expected < 0; ++i) {
      if (timestamps[i] >= ask) expected = static_cast<int64_t>(i);
    }
    EXPECT_EQ(f.log->OffsetForTimestamp(ask, INT64_MAX).offset, expected) << ask;
  }
}

TEST(PartitionLogTest, LogAppendTimeStampsTheBatch) {
  LogFixture f;
  f.options.config.log_append_time = true;
  f.Create();
  Append append(MakeBatch("a", 2, 20, 5));
  f.clock.SetWallTimeMs(777);
  f.log->Append(&append.request);
  EXPECT_EQ(append.request.log_append_time_ms, 777);
  const std::string bytes = f.BytesOf(f.Read(0).slice);
  EXPECT_TRUE(RecordBatchView(bytes).is_log_append_time());
  EXPECT_EQ(RecordBatchView(bytes).max_timestamp(), 777);
  EXPECT_EQ(RecordBatchView(bytes).crc(), ComputeBatchCrc(bytes));
}

TEST(PartitionLogTest, AWrongMaxTimestampIsCorrected) {
  LogFixture f;
  f.Create();
  std::string bytes = MakeBatch("a", 2);
  StoreBigEndian<int64_t>(bytes.data() + batch::kMaxTimestampAt, kTestNow + 500);
  StoreBigEndian<uint32_t>(bytes.data() + batch::kCrcAt, ComputeBatchCrc(bytes));
  f.Add(bytes);
  const std::string stored = f.BytesOf(f.Read(0).slice);
  EXPECT_EQ(RecordBatchView(stored).max_timestamp(), kTestNow + 1);
  EXPECT_EQ(RecordBatchView(stored).crc(), ComputeBatchCrc(stored));
}

TEST(PartitionLogTest, LeaderEpochsAreKeptAndFound) {
  LogFixture f;
  f.Create();
  ASSERT_TRUE(f.log->StartLeaderEpoch(0).ok());
  f.Add(MakeBatch("a", 5), 0);
  ASSERT_TRUE(f.log->StartLeaderEpoch(3).ok());
  f.Add(MakeBatch("b", 5), 3);
  EXPECT_EQ(f.log->EndOffsetForEpoch(0), (EpochEndOffset{0, 5}));
  EXPECT_EQ(f.log->EndOffsetForEpoch(1), (EpochEndOffset{0, 5}));
  EXPECT_EQ(f.log->EndOffsetForEpoch(3), (EpochEndOffset{3, 10}));
  EXPECT_EQ(f.log->EndOffsetForEpoch(4), (EpochEndOffset{-1, -1}));
  EXPECT_EQ(f.log->EndOffsetForEpoch(-1), (EpochEndOffset{-1, -1}));
  EXPECT_FALSE(f.log->StartLeaderEpoch(2).ok());
  Append stale(MakeBatch("c"), 2);
  f.log->Append(&stale.request);
  EXPECT_EQ(stale.request.error, ErrorCode::kNotLeaderOrFollower);
  ASSERT_TRUE(f.log->Close().ok());
  f.Open(/*clean=*/true);
  EXPECT_EQ(f.log->EndOffsetForEpoch(0), (EpochEndOffset{0, 5}));
  EXPECT_EQ(f.log->latest_leader_epoch(), 3);
}

TEST(PartitionLogTest, AMissingEpochFileIsRebuiltFromTheBatches) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a", 5), 1);
  f.Add(MakeBatch("b", 5), 4);
  ASSERT_TRUE(f.log->Close().ok());
  ASSERT_TRUE(f.disk.Remove("/data/t-0/leader-epoch-checkpoint").ok());
  f.Open(/*clean=*/true);
  EXPECT_EQ(f.log->EndOffsetForEpoch(1), (EpochEndOffset{1, 5}));
  EXPECT_EQ(f.log->EndOffsetForEpoch(4), (EpochEndOffset{4, 10}));
}

TEST(PartitionLogTest, AnEpochThatWasNeverGivenOutIsDropped) {
  LogFixture f;
  f.Create();
  ASSERT_TRUE(f.log->StartLeaderEpoch(2).ok());
  f.Add(MakeBatch("a"), 2);
  ASSERT_TRUE(f.log->Close().ok());
  ASSERT_TRUE(f.disk.WriteFileAtomically("/data/t-0/leader-epoch-checkpoint", "0\n1\n18 0\n").ok());
  f.Open(/*clean=*/true);
  EXPECT_EQ(f.log->latest_leader_epoch(), 18);
  ASSERT_TRUE(f.log->DropLeaderEpochsAbove(2).ok());
  EXPECT_EQ(f.log->latest_leader_epoch(), 2);
  f.Add(MakeBatch("b"), 2);
  EXPECT_TRUE(absl::IsDataLoss(f.log->DropLeaderEpochsAbove(1)));
}

TEST(PartitionLogTest, AFollowerAppendsTheLeadersBatchesAsTheyAre) {
  LogFixture leader;
  leader.Create();
  leader.Add(MakeBatch("a", 2), 1);
  leader.Add(MakeBatch("b", 2), 2);
  const std::string bytes = leader.BytesOf(leader.Read(0).slice);
  LogFixture follower;
  follower.Create();
  Append append(bytes);
  append.request.origin = AppendOrigin::kReplication;
  follower.log->Append(&append.request);
  EXPECT_EQ(append.request.error, ErrorCode::kNone) << append.request.message;
  EXPECT_EQ(append.request.base_offset, 0);
  EXPECT_EQ(append.request.last_offset, 3);
  EXPECT_EQ(follower.BytesOf(follower.Read(0).slice), bytes);
  EXPECT_EQ(follower.log->EndOffsetForEpoch(1), (EpochEndOffset{1, 2}));
  // The same again overlaps.
  Append again(bytes);
  again.request.origin = AppendOrigin::kReplication;
  follower.log->Append(&again.request);
  EXPECT_NE(again.request.error, ErrorCode::kNone);
}

TEST(PartitionLogTest, TruncationDropsBatchesAndKeepsSlicesThatAreBeingSent) {
  LogFixture f;
  f.options.config.segment_bytes = 700;
  f.Create();
  for (int i = 0; i < 20; ++i) f.Add(MakeBatch(absl::StrCat("a", i), 2), i / 5);
  f.file_io.RunAll();
  const ReadResult held = f.Read(0);
  const std::string before = f.BytesOf(held.slice);
  // Offset 3 is inside the second batch, which goes as a whole.
  ASSERT_TRUE(f.log->TruncateTo(3).ok());
  EXPECT_EQ(f.log->log_end_offset(), 2);
  EXPECT_EQ(f.log->durable_offset(), 2);
  EXPECT_EQ(f.BaseOffsets(), (Offsets{0}));
  EXPECT_EQ(f.Add(MakeBatch("new", 2), 5), 2);
  EXPECT_EQ(f.BaseOffsets(), (Offsets{0, 2}));
  EXPECT_EQ(f.BytesOf(held.slice), before);
  EXPECT_EQ(f.log->EndOffsetForEpoch(0), (EpochEndOffset{0, 2}));
}

TEST(PartitionLogTest, ASyncThatBeganBeforeATruncationProvesNothingAfterIt) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a", 2));
  f.file_io.RunAll();
  f.Add(MakeBatch("b", 2));
  ASSERT_TRUE(f.log->TruncateTo(2).ok());
  f.Add(MakeBatch("c", 2));
  f.file_io.RunOne();
  EXPECT_EQ(f.log->durable_offset(), 2);
  f.file_io.RunAll();
  EXPECT_EQ(f.log->durable_offset(), 4);
}

// --- Opening again.

TEST(PartitionLogTest, ALogThatWasClosedOpensAsItWas) {
  LogFixture f;
  f.options.config.segment_bytes = 1500;
  f.options.config.index_interval_bytes = 200;
  f.Create();
  Offsets expected;
  for (int i = 0; i < 40; ++i) expected.push_back(f.Add(MakeBatch("a", 2), 1));
  ASSERT_TRUE(f.log->Close().ok());
  f.disk.PowerLoss(PowerLossMode::kDropUnsynced);
  f.Open(/*clean=*/true, 80);
  EXPECT_FALSE(f.log->was_recovered());
  EXPECT_EQ(f.log->topic_id(), (Uuid{1, 2}));
  EXPECT_EQ(f.log->log_end_offset(), 80);
  EXPECT_EQ(f.log->durable_offset(), 80);
  EXPECT_EQ(f.BaseOffsets(), expected);
  EXPECT_EQ(f.Add(MakeBatch("b"), 1), 80);
  EXPECT_EQ(f.log->OffsetForTimestamp(kTestNow + 1, INT64_MAX).offset, 1);
}

TEST(PartitionLogTest, ATornTailIsCutAtTheLastWholeBatch) {
  LogFixture f;
  f.Create();
  for (int i = 0; i < 10; ++i) f.Add(MakeBatch("a", 2));
  const int64_t size = f.log->size_bytes();
  const std::string path = "/data/t-0/00000000000000000000.log";
  for (const int64_t torn : {1, 11, 60, 61, 62, 100}) {
    FileRef file = *f.disk.Open(path, OpenMode::kReadWrite);
    ASSERT_TRUE(
        file->WriteAll(size, f.BytesOf({file, 0, torn}).data(), static_cast<size_t>(torn)).ok());
    f.Open(/*clean=*/false);
    EXPECT_TRUE(f.log->was_recovered());
    EXPECT_EQ(f.log->log_end_offset(), 20) << torn;
    EXPECT_EQ(*file->SizeBytes(), size);
    EXPECT_EQ(f.BaseOffsets().size(), 10u);
  }
}

TEST(PartitionLogTest, ADamagedTailBatchIsCut) {
  LogFixture f;
  f.Create();
  for (int i = 0; i < 10; ++i) f.Add(MakeBatch("a", 2));
  const int64_t size = f.log->size_bytes();
  FileRef file = *f.disk.Open("/data/t-0/00000000000000000000.log", OpenMode::kReadWrite);
  ASSERT_TRUE(file->WriteAll(size - 1, "X", 1).ok());
  f.Open(/*clean=*/false, /*recovery_point=*/18);
  EXPECT_EQ(f.log->log_end_offset(), 18);
  EXPECT_FALSE(f.log->is_offline());
}

TEST(PartitionLogTest, DamageBelowTheRecoveryPointTakesTheLogOffline) {
  LogFixture f;
  f.Create();
  for (int i = 0; i < 10; ++i) f.Add(MakeBatch("a", 2));
  FileRef file = *f.disk.Open("/data/t-0/00000000000000000000.log", OpenMode::kReadWrite);
  ASSERT_TRUE(file->WriteAll(300, "XXXX", 4).ok());
  f.Open(/*clean=*/false, /*recovery_point=*/20);
  EXPECT_TRUE(f.log->is_offline());
  const std::string reason(f.log->offline_reason().message());
  EXPECT_NE(reason.find("00000000000000000000.log at position"), std::string::npos) << reason;
  EXPECT_EQ(f.Read(0).error, ErrorCode::kKafkaStorageError);
}

TEST(PartitionLogTest, ALostOrTruncatedIndexIsRebuilt) {
  for (const char* name : {"index", "timeindex"}) {
    for (const bool remove : {true, false}) {
      LogFixture f;
      f.options.config.index_interval_bytes = 200;
      f.options.config.segment_bytes = 3000;
      f.Create();
      for (int i = 0; i < 60; ++i) f.Add(MakeBatch("a", 2, 20, kTestNow + 2 * i));
      ASSERT_TRUE(f.log->Close().ok());
      for (const auto base : {"00000000000000000000", "00000000000000000040"}) {
        const std::string path = absl::StrCat("/data/t-0/", base, ".", name);
        if (!*f.disk.Exists(path)) continue;
        if (remove) {
          ASSERT_TRUE(f.disk.Remove(path).ok());
        } else {
          FileRef file = *f.disk.Open(path, OpenMode::kReadWrite);
          ASSERT_TRUE(file->Truncate(*file->SizeBytes() - 3).ok());
        }
      }
      f.Open(/*clean=*/true, 120);
      EXPECT_TRUE(f.log->was_recovered());
      ASSERT_FALSE(f.log->is_offline()) << f.log->offline_reason();
      EXPECT_EQ(f.BaseOffsets().size(), 60u);
      for (int64_t n = 0; n < 120; ++n) {
        EXPECT_EQ(f.log->OffsetForTimestamp(kTestNow + n, INT64_MAX).offset, n);
      }
    }
  }
}

TEST(PartitionLogTest, ALogThatEndsBelowItsRecoveryPointIsOffline) {
  for (const bool clean : {true, false}) {
    LogFixture f;
    f.options.config.segment_bytes = 700;
    f.Create();
    for (int i = 0; i < 20; ++i) f.Add(MakeBatch("a", 2));
    ASSERT_TRUE(f.log->Close().ok());
    std::string last;
    const std::vector<std::string> names = *f.disk.List("/data/t-0");
    for (const std::string& name : names) {
      if (absl::EndsWith(name, ".log")) last = std::max(last, name);
    }
    ASSERT_TRUE(f.disk.Remove("/data/t-0/" + last).ok());
    f.Open(clean, /*recovery_point=*/40);
    EXPECT_TRUE(f.log->is_offline()) << "clean " << clean;
    // Whoever takes the loss gets what is left.
    f.Open(clean, /*recovery_point=*/-1);
    EXPECT_FALSE(f.log->is_offline());
    EXPECT_LT(f.log->log_end_offset(), 40);
  }
}

TEST(PartitionLogTest, AnIndexThatMisleadsCostsASearchNotTheRecords) {
  // Of the first segment and of a later one; the first and the last entry; its
  // offset and its position.
  for (const bool first_segment : {true, false}) {
    for (const bool first_entry : {true, false}) {
      for (const int at : {0, 3, 7}) {
        SCOPED_TRACE(absl::StrCat(first_segment, " ", first_entry, " byte ", at));
        LogFixture f;
        f.options.config.index_interval_bytes = 200;
        f.options.config.segment_bytes = 3000;
        f.Create();
        for (int i = 0; i < 30; ++i) f.Add(MakeBatch("a", 2));
        ASSERT_TRUE(f.log->Close().ok());
        std::vector<std::string> names = *f.disk.List("/data/t-0");
        std::erase_if(names,
                      [](const std::string& name) { return !absl::EndsWith(name, ".index"); });
        std::sort(names.begin(), names.end());
        ASSERT_GE(names.size(), 2u);
        FileRef index =
            *f.disk.Open("/data/t-0/" + (first_segment ? names.front() : names[names.size() - 2]),
                         OpenMode::kReadWrite);
        const int64_t position = (first_entry ? 0 : *index->SizeBytes() - 8) + at;
        char byte = 0;
        ASSERT_TRUE(index->ReadExactly(position, &byte, 1).ok());
        byte = static_cast<char>(byte ^ (at == 0 ? 0x80 : 0x11));
        ASSERT_TRUE(index->WriteAll(position, &byte, 1).ok());
        f.Open(/*clean=*/true, 60);
        ASSERT_FALSE(f.log->is_offline()) << f.log->offline_reason();
        EXPECT_EQ(f.BaseOffsets().size(), 30u);
        for (int64_t offset = 0; offset < 60; ++offset) {
          const ReadResult read = f.Read(offset, 1);
          ASSERT_EQ(read.error, ErrorCode::kNone) << offset;
          EXPECT_EQ(RecordBatchView(f.BytesOf(read.slice)).base_offset(), offset / 2 * 2);
        }
      }
    }
  }
}

TEST(PartitionLogTest, SegmentsAfterAHoleAreDropped) {
  LogFixture f;
  f.options.config.segment_bytes = 700;
  f.Create();
  for (int i = 0; i < 20; ++i) f.Add(MakeBatch("a", 2));
  ASSERT_GT(f.log->segment_count(), 3);
  FileRef file = *f.disk.Open("/data/t-0/00000000000000000000.log", OpenMode::kReadWrite);
  ASSERT_TRUE(file->Truncate(static_cast<int64_t>(MakeBatch("a", 2).size()) + 30).ok());
  f.Open(/*clean=*/false);
  EXPECT_EQ(f.log->log_end_offset(), 2);
  EXPECT_EQ(f.log->segment_count(), 1);
  EXPECT_EQ(f.Add(MakeBatch("b")), 2);
  EXPECT_EQ(f.BaseOffsets(), (Offsets{0, 2}));
}

TEST(PartitionLogTest, LeftoversAreSweptUp) {
  LogFixture f;
  f.Create();
  f.Add(MakeBatch("a"));
  ASSERT_TRUE(f.log->Close().ok());
  for (const char* name : {"00000000000000000009.index", "00000000000000000003.log.deleted",
                           "leader-epoch-checkpoint.tmp"}) {
    ASSERT_TRUE(f.disk.Open(absl::StrCat("/data/t-0/", name), OpenMode::kCreate).ok());
  }
  f.Open(/*clean=*/true);
  const std::vector<std::string> names = *f.disk.List("/data/t-0");
  for (const std::string& name : names) {
    EXPECT_EQ(name.find("9.index"), std::string::npos);
    EXPECT_EQ(name.find(".deleted"), std::string::npos);
    EXPECT_EQ(name.find(".tmp"), std::string::npos);
  }
}

TEST(PartitionLogTest, IndexEntriesAreKafkas) {
  LogFixture f;
  f.options.config.index_interval_bytes = 150;
  f.Create();
  // Each batch is larger than 75 and smaller than 150 bytes.
  for (int i = 0; i < 8; ++i) f.Add(MakeBatch("a", 2, 15, kTestNow + 10 * i));
  const int64_t size = f.log->size_bytes() / 8;
  ASSERT_TRUE(f.log->Close().ok());
  const std::string index = *f.disk.ReadFile("/data/t-0/00000000000000000000.index");
  ASSERT_EQ(index.size() % 8, 0u);
  ASSERT_GT(index.size(), 8u);
  for (size_t at = 0; at < index.size(); at += 8) {
    const int32_t offset = LoadBigEndian<int32_t>(index.data() + at);
    const int32_t position = LoadBigEndian<int32_t>(index.data() + at + 4);
    // The last offset of the batch that begins at the position.
    EXPECT_EQ(position % size, 0);
    EXPECT_EQ(offset, position / size * 2 + 1);
  }
  const std::string times = *f.disk.ReadFile("/data/t-0/00000000000000000000.timeindex");
  ASSERT_EQ(times.size() % 12, 0u);
  EXPECT_EQ(LoadBigEndian<int64_t>(times.data() + times.size() - 12), kTestNow + 71);
  EXPECT_EQ(LoadBigEndian<int32_t>(times.data() + times.size() - 4), 15);
}

// --- The queue.

class CollectingLane final : public ContinuationLane {
 public:
  void Post(Continuation* continuation) override { posted.push_back(continuation); }
  std::vector<Continuation*> posted;
};

TEST(PartitionLogTest, AWriterThatIsKeptBusyHandsOverToTheLane) {
  LogFixture f;
  CollectingLane lane;
  f.options.lane = &lane;
  f.Create();
  struct Chain {
    LogFixture* f;
    std::vector<std::unique_ptr<Append>> appends;
    int left = 100;
    static void Next(AppendRequest* done) {
      Chain* chain = static_cast<Chain*>(done->context);
      if (chain->left-- > 0) chain->Go();
    }
    void Go() {
      appends.push_back(std::make_unique<Append>(MakeBatch("a")));
      appends.back()->request.context = this;
      appends.back()->request.on_done = &Next;
      f->log->Append(&appends.back()->request);
    }
  } chain{&f, {}};
  chain.Go();
  EXPECT_LT(f.log->log_end_offset(), 20);
  int turns = 0;
  while (!lane.posted.empty()) {
    Continuation* next = lane.posted.back();
    lane.posted.pop_back();
    next->run(next);
    ++turns;
  }
  EXPECT_GT(turns, 5);
  EXPECT_EQ(f.log->log_end_offset(), 101);
}

TEST(PartitionLogTest, ConcurrentAppendersEachGetTheirOwnOffsetsAndAllIsThere) {
  LogFixture f(FlushMode::kNone);
  f.options.config.segment_bytes = 20000;
  f.options.listener = nullptr;
  f.Create();
  constexpr int kThreads = 4;
  constexpr int kAppends = 500;
  std::vector<std::vector<int64_t>> offsets(kThreads);
  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    int64_t offset = 0;
    while (!stop.load()) {
      const ReadResult result = f.log->Read(offset, 4000, INT64_MAX, true);
      ASSERT_EQ(result.error, ErrorCode::kNone);
      ASSERT_GE(result.next_offset, offset);
      offset = result.next_offset;
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<Append>> appends;
      for (int i = 0; i < kAppends; ++i) {
        appends.push_back(std::make_unique<Append>(MakeBatch(absl::StrCat(t, "-", i, "-"), 2)));
        appends.back()->request.context = &done;
        appends.back()->request.on_done = [](AppendRequest* request) {
          static_cast<std::atomic<int>*>(request->context)->fetch_add(1);
        };
        f.log->Append(&appends.back()->request);
      }
      // Others may still be writing for this thread.
      while (done.load() < kThreads * kAppends) std::this_thread::yield();
      for (const auto& append : appends) {
        ASSERT_EQ(append->request.error, ErrorCode::kNone);
        offsets[static_cast<size_t>(t)].push_back(append->request.base_offset);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  reader.join();
  for (int t = 0; t < kThreads; ++t) {
    const std::vector<int64_t>& mine = offsets[static_cast<size_t>(t)];
    for (int i = 0; i < kAppends; ++i) {
      if (i > 0) EXPECT_LT(mine[static_cast<size_t>(i) - 1], mine[static_cast<size_t>(i)]);
      if (i % 50 != 0) continue;
      const std::string bytes = f.BytesOf(f.Read(mine[static_cast<size_t>(i)], 1).slice);
      EXPECT_NE(bytes.find(absl::StrCat(t, "-", i, "-0")), std::string::npos);
    }
  }
  EXPECT_EQ(f.BaseOffsets().size(), static_cast<size_t>(kThreads * kAppends));
}

}  // namespace
}  // namespace gyre
