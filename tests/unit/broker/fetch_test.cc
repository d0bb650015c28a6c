// Fetch and ListOffsets: what readers see, and when.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/fetch.h"
#include "proto/list_offsets.h"
#include "tests/unit/broker/broker_test_util.h"

namespace gyre {
namespace {

class FetchTest : public BrokerTest {
 protected:
  void SetUp() override {
    BrokerTest::SetUp();
    ASSERT_EQ(CreateTopic("t", 2), ErrorCode::kNone);
  }
  static proto::FetchRequest Request(int64_t offset, int32_t partition = 0,
                                     absl::string_view topic = "t") {
    proto::FetchRequest request;
    request.max_wait_ms = 0;
    request.min_bytes = 1;
    request.max_bytes = 1 << 20;
    auto& wanted = request.topics.emplace_back();
    wanted.topic = topic;
    wanted.partitions.push_back(
        {.partition = partition, .fetch_offset = offset, .partition_max_bytes = 1 << 20});
    return request;
  }
  proto::FetchResponse::Partition Fetch(const proto::FetchRequest& request, int16_t version = 11) {
    return Call(request, version).responses.at(0).partitions.at(0);
  }
  static std::vector<int64_t> BaseOffsets(const proto::FetchResponse::Partition& partition) {
    std::vector<int64_t> offsets;
    for (absl::string_view rest = partition.records.bytes(); !rest.empty();) {
      EXPECT_EQ(CheckBatchShape(rest), BatchShape::kOk);
      const RecordBatchView batch(rest);
      EXPECT_EQ(batch.crc(),
                ComputeBatchCrc(rest.substr(0, static_cast<size_t>(batch.size_bytes()))));
      offsets.push_back(batch.base_offset());
      rest.remove_prefix(static_cast<size_t>(batch.size_bytes()));
    }
    return offsets;
  }
  void Fill(int batches, int records = 1, size_t value_bytes = 20, absl::string_view topic = "t") {
    for (int i = 0; i < batches; ++i) {
      ASSERT_EQ(Produce(topic, MakeBatch("v", records, value_bytes)).error_code, ErrorCode::kNone);
    }
  }
  proto::ListOffsetsResponse::Partition List(int64_t timestamp, int16_t version = 6,
                                             int32_t epoch = -1) {
    proto::ListOffsetsRequest request;
    request.replica_id = -1;
    auto& topic = request.topics.emplace_back();
    topic.name = "t";
    topic.partitions.push_back(
        {.partition_index = 0, .current_leader_epoch = epoch, .timestamp = timestamp});
    return Call(request, version).topics.at(0).partitions.at(0);
  }
};

TEST_F(FetchTest, EveryServedVersionReads) {
  Fill(3);
  for (int16_t version = 4; version <= 12; ++version) {
    const auto partition = Fetch(Request(0), version);
    EXPECT_EQ(partition.error_code, ErrorCode::kNone);
    EXPECT_EQ(partition.high_watermark, 3);
    EXPECT_EQ(partition.last_stable_offset, 3);
    EXPECT_EQ(BaseOffsets(partition), (std::vector<int64_t>{0, 1, 2}));
  }
}

TEST_F(FetchTest, TheLeadersEpochIsInTheBatchesWhateverTheProducerSent) {
  BatchOptions options;
  options.leader_epoch = 1234;
  ASSERT_EQ(Produce("t", MakeBatch("x", 1, 20, kTestNow, options)).error_code, ErrorCode::kNone);
  EXPECT_EQ(RecordBatchView(Fetch(Request(0)).records.bytes()).leader_epoch(), 0);
}

TEST_F(FetchTest, NoDataIsEmptyRecordsNotNull) {
  const auto partition = Fetch(Request(0));
  EXPECT_EQ(partition.error_code, ErrorCode::kNone);
  EXPECT_FALSE(partition.records.is_null());
  EXPECT_EQ(partition.records.size(), 0u);
}

TEST_F(FetchTest, AnOffsetInsideABatchGetsTheWholeBatch) {
  Fill(2, 10);
  EXPECT_EQ(BaseOffsets(Fetch(Request(5))), (std::vector<int64_t>{0, 10}));
  EXPECT_EQ(BaseOffsets(Fetch(Request(10))), (std::vector<int64_t>{10}));
}

TEST_F(FetchTest, OffsetsOutsideTheLogAreOutOfRange) {
  Fill(2);
  EXPECT_EQ(Fetch(Request(3)).error_code, ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(Fetch(Request(-1)).error_code, ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(Fetch(Request(2)).error_code, ErrorCode::kNone);
  const auto partition = Fetch(Request(3));
  EXPECT_EQ(partition.high_watermark, -1);
  EXPECT_FALSE(partition.records.is_null());
}

TEST_F(FetchTest, ReadCommittedGetsAnEmptyListAndOthersNull) {
  Fill(1);
  proto::FetchRequest request = Request(0);
  EXPECT_FALSE(Fetch(request).aborted_transactions.has_value());
  request.isolation_level = 1;
  const auto partition = Fetch(request);
  ASSERT_TRUE(partition.aborted_transactions.has_value());
  EXPECT_TRUE(partition.aborted_transactions->empty());
  EXPECT_EQ(partition.last_stable_offset, partition.high_watermark);
}

TEST_F(FetchTest, EveryAskedPartitionIsAnswered) {
  Fill(1);
  proto::FetchRequest request = Request(0);
  for (int32_t index : {1, 2, -1}) {
    request.topics[0].partitions.push_back({.partition = index, .partition_max_bytes = 1 << 20});
  }
  auto& unknown = request.topics.emplace_back();
  unknown.topic = "unknown";
  unknown.partitions.emplace_back();
  const auto response = Call(request, 11);
  ASSERT_EQ(response.responses.size(), 2u);
  ASSERT_EQ(response.responses[0].partitions.size(), 4u);
  EXPECT_EQ(response.responses[0].partitions[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(response.responses[0].partitions[1].error_code, ErrorCode::kNone);
  EXPECT_EQ(response.responses[0].partitions[2].error_code, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(response.responses[0].partitions[3].error_code, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(response.responses[1].partitions[0].error_code, ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(FetchTest, ThereAreNoSessions) {
  Fill(1);
  proto::FetchRequest request = Request(0);
  for (const auto& [id, epoch] : {std::pair{0, -1}, {0, 0}, {55, 0}, {55, -1}}) {
    request.session_id = id;
    request.session_epoch = epoch;
    const auto response = Call(request, 11);
    EXPECT_EQ(response.error_code, ErrorCode::kNone);
    EXPECT_EQ(response.session_id, 0);
    EXPECT_EQ(response.responses.size(), 1u);
  }
  for (const int32_t epoch : {1, INT32_MAX, -2}) {
    request.session_epoch = epoch;
    const auto response = Call(request, 11);
    EXPECT_EQ(response.error_code, ErrorCode::kFetchSessionIdNotFound);
    EXPECT_EQ(response.session_id, 0);
    EXPECT_TRUE(response.responses.empty());
  }
}

TEST_F(FetchTest, LeaderEpochsAreChecked) {
  ASSERT_TRUE(Close().ok());
  ASSERT_TRUE(Open().ok());
  Crash();
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(broker->replicas().Find("t", 0)->leader_epoch(), 1);
  const auto fetch = [&](int32_t epoch) {
    proto::FetchRequest request = Request(0);
    request.topics[0].partitions[0].current_leader_epoch = epoch;
    return Fetch(request).error_code;
  };
  EXPECT_EQ(fetch(-1), ErrorCode::kNone);
  EXPECT_EQ(fetch(1), ErrorCode::kNone);
  EXPECT_EQ(fetch(0), ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(fetch(2), ErrorCode::kUnknownLeaderEpoch);
  EXPECT_EQ(List(-1, 6, 0).error_code, ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(List(-1, 6, 2).error_code, ErrorCode::kUnknownLeaderEpoch);
  EXPECT_EQ(List(-1, 6, 1).leader_epoch, 1);
}

TEST_F(FetchTest, TheFirstBatchIsGivenWholeAndTheLimitsHoldAfterIt) {
  Fill(3, 1, 1000);
  proto::FetchRequest request = Request(0);
  request.max_bytes = 10;
  request.topics[0].partitions[0].partition_max_bytes = 10;
  EXPECT_EQ(BaseOffsets(Fetch(request)), (std::vector<int64_t>{0}));
  request.max_bytes = 1 << 20;
  request.topics[0].partitions[0].partition_max_bytes = 2500;
  EXPECT_EQ(BaseOffsets(Fetch(request)), (std::vector<int64_t>{0, 1}));
}

TEST_F(FetchTest, PartitionsInRequestOrderShareTheBytes) {
  Fill(2, 1, 1000);
  const std::string batch = MakeBatch("w", 1, 1000);
  Call(MakeProduce("t", batch, -1, 1), 9);
  proto::FetchRequest request = Request(0);
  request.max_bytes = 1500;
  request.topics[0].partitions.push_back(
      {.partition = 1, .fetch_offset = 0, .partition_max_bytes = 1 << 20});
  const auto response = Call(request, 11);
  EXPECT_EQ(BaseOffsets(response.responses[0].partitions[0]).size(), 1u);
  EXPECT_EQ(response.responses[0].partitions[1].records.size(), 0u);
  EXPECT_EQ(response.responses[0].partitions[1].high_watermark, 1);
}

TEST_F(FetchTest, OnlySettledRecordsAreSeen) {
  Fill(1);
  file_io.set_immediate(false);
  ASSERT_EQ(Produce("t", MakeBatch("x"), 1).error_code, ErrorCode::kNone);
  EXPECT_EQ(BaseOffsets(Fetch(Request(0))), (std::vector<int64_t>{0}));
  EXPECT_EQ(Fetch(Request(1)).records.size(), 0u);
  EXPECT_EQ(List(-1).offset, 1);
  file_io.RunAll();
  Pump();
  EXPECT_EQ(BaseOffsets(Fetch(Request(1))), (std::vector<int64_t>{1}));
  EXPECT_EQ(List(-1).offset, 2);
}

TEST_F(FetchTest, AFetchWaitsForDataAndIsWokenByIt) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 500;
  const auto exchange = Send(request, 11);
  EXPECT_FALSE(exchange->answered());
  AdvanceMs(100);
  EXPECT_FALSE(exchange->answered());
  Fill(1);
  ASSERT_TRUE(exchange->answered());
  EXPECT_EQ(BaseOffsets(exchange->As<proto::FetchResponse>(11).responses[0].partitions[0]),
            (std::vector<int64_t>{0}));
}

TEST_F(FetchTest, AFetchThatWaitedLongEnoughIsAnsweredEmpty) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 500;
  const auto exchange = Send(request, 11);
  AdvanceMs(499);
  EXPECT_FALSE(exchange->answered());
  AdvanceMs(2);
  ASSERT_TRUE(exchange->answered());
  const auto response = exchange->As<proto::FetchResponse>(11);
  EXPECT_EQ(response.responses[0].partitions[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(response.responses[0].partitions[0].records.size(), 0u);
}

TEST_F(FetchTest, MinBytesIsWaitedFor) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 500;
  request.min_bytes = 2500;
  const auto exchange = Send(request, 11);
  Fill(2, 1, 1000);
  EXPECT_FALSE(exchange->answered());
  Fill(1, 1, 1000);
  ASSERT_TRUE(exchange->answered());
  EXPECT_EQ(BaseOffsets(exchange->As<proto::FetchResponse>(11).responses[0].partitions[0]).size(),
            3u);
}

TEST_F(FetchTest, AByteLimitBetweenBatchesDoesNotHoldUpMinBytes) {
  Fill(3, 1, 1000);
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 500;
  request.min_bytes = 1500;
  for (const int32_t partition_max_bytes : {1500, 1 << 20}) {
    // One batch fits into either limit, a second one does not.
    request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes;
    request.max_bytes = partition_max_bytes == 1500 ? 1 << 20 : 1500;
    const auto exchange = Send(request, 11);
    ASSERT_TRUE(exchange->answered()) << partition_max_bytes;
    EXPECT_EQ(BaseOffsets(exchange->As<proto::FetchResponse>(11).responses[0].partitions[0]),
              (std::vector<int64_t>{0}));
  }
  // The limit itself is less than asked for: the other partition may add to it.
  request.topics[0].partitions[0].partition_max_bytes = 1400;
  const auto exchange = Send(request, 11);
  EXPECT_FALSE(exchange->answered());
  AdvanceMs(501);
  EXPECT_TRUE(exchange->answered());
}

TEST_F(FetchTest, TheEndOfASegmentDoesNotHoldUpMinBytes) {
  ASSERT_EQ(CreateTopic("rolled", 1, {{"internal.segment.bytes", "2000"}}), ErrorCode::kNone);
  Fill(2, 1, 900, "rolled");
  proto::FetchRequest request = Request(0, 0, "rolled");
  request.max_wait_ms = 500;
  request.min_bytes = 1 << 19;
  const auto at_the_end = Send(request, 11);
  EXPECT_FALSE(at_the_end->answered());
  Fill(1, 1, 900, "rolled");
  ASSERT_GT(broker->replicas().Find("rolled", 0)->log().segment_count(), 1);
  EXPECT_TRUE(at_the_end->answered());
  EXPECT_TRUE(Send(request, 11)->answered());
}

TEST_F(FetchTest, AtTheDeadlineThereMayBeLessThanMinBytes) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 500;
  request.min_bytes = 100'000;
  const auto exchange = Send(request, 11);
  Fill(1);
  AdvanceMs(501);
  ASSERT_TRUE(exchange->answered());
  EXPECT_EQ(BaseOffsets(exchange->As<proto::FetchResponse>(11).responses[0].partitions[0]).size(),
            1u);
}

TEST_F(FetchTest, AnErrorInAnyPartitionAnswersAtOnce) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 500;
  request.topics[0].partitions.push_back({.partition = 7, .partition_max_bytes = 1});
  EXPECT_TRUE(Send(request, 11)->answered());
}

TEST_F(FetchTest, AFetchOfNothingIsAnsweredAtOnce) {
  proto::FetchRequest request;
  request.max_wait_ms = 500;
  request.min_bytes = 1;
  EXPECT_TRUE(Send(request, 11)->answered());
}

TEST_F(FetchTest, AFetchThatWaitsForADeletedTopicEnds) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 60'000;
  const auto exchange = Send(request, 11);
  broker->replicas().Apply({broker->metadata().Current()->FindTopic("t")}, {});
  Pump();
  ASSERT_TRUE(exchange->answered());
  EXPECT_EQ(exchange->As<proto::FetchResponse>(11).responses[0].partitions[0].error_code,
            ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(FetchTest, WaitingFetchesAreAnsweredBeforeADrain) {
  proto::FetchRequest request = Request(0);
  request.max_wait_ms = 60'000;
  const auto exchange = Send(request, 11);
  broker->CompleteDelayedFetches();
  Pump();
  EXPECT_TRUE(exchange->answered());
}

TEST_F(FetchTest, FollowersAreNotServed) {
  proto::FetchRequest request = Request(0);
  request.replica_id = 2;
  EXPECT_EQ(Fetch(request).error_code, ErrorCode::kNotLeaderOrFollower);
  request.topics[0].partitions[0].current_leader_epoch = 0;
  EXPECT_EQ(Fetch(request).error_code, ErrorCode::kUnknownLeaderEpoch);
}

TEST_F(FetchTest, ALogThatDivergedIsTold) {
  Fill(2);
  Crash();
  ASSERT_TRUE(Open().ok());
  Fill(1);
  proto::FetchRequest request = Request(3);
  request.topics[0].partitions[0].last_fetched_epoch = 0;
  const auto partition = Fetch(request, 12);
  EXPECT_EQ(partition.error_code, ErrorCode::kNone);
  EXPECT_EQ(partition.diverging_epoch.epoch, 0);
  EXPECT_EQ(partition.diverging_epoch.end_offset, 2);
  EXPECT_EQ(partition.records.size(), 0u);
}

TEST_F(FetchTest, AReadGoesOnAcrossSegments) {
  ASSERT_EQ(CreateTopic("rolled", 1, {{"internal.segment.bytes", "2000"}}), ErrorCode::kNone);
  Fill(10, 1, 900, "rolled");
  EXPECT_GT(broker->replicas().Find("rolled", 0)->log().segment_count(), 3);
  int64_t offset = 0;
  while (offset < 10) {
    const auto partition = Fetch(Request(offset, 0, "rolled"));
    ASSERT_EQ(partition.error_code, ErrorCode::kNone);
    const std::vector<int64_t> offsets = BaseOffsets(partition);
    ASSERT_FALSE(offsets.empty());
    ASSERT_EQ(offsets.front(), offset);
    offset = offsets.back() + 1;
  }
}

TEST_F(FetchTest, ListOffsetsKnowsTheEndsAndTheTimes) {
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(Produce("t", MakeBatch("v", 1, 20, 1000 * (i + 1))).error_code, ErrorCode::kNone);
  }
  for (int16_t version = 1; version <= 6; ++version) {
    EXPECT_EQ(List(-1, version).offset, 3);
    EXPECT_EQ(List(-1, version).timestamp, -1);
    EXPECT_EQ(List(-2, version).offset, 0);
    EXPECT_EQ(List(1500, version).offset, 1);
    EXPECT_EQ(List(1500, version).timestamp, 2000);
    EXPECT_EQ(List(9000, version).offset, -1);
    EXPECT_EQ(List(9000, version).timestamp, -1);
    EXPECT_EQ(List(9000, version).error_code, ErrorCode::kNone);
  }
  EXPECT_EQ(List(-2).leader_epoch, 0);
  EXPECT_EQ(List(1500).leader_epoch, 0);
}

TEST_F(FetchTest, SpecialTimesOfLaterVersionsAreUnsupported) {
  for (int64_t timestamp : {-3, -4, -5, -6, -7}) {
    EXPECT_EQ(List(timestamp).error_code, ErrorCode::kUnsupportedVersion);
    EXPECT_EQ(List(timestamp, 6, 9).error_code, ErrorCode::kUnsupportedVersion);
  }
}

TEST_F(FetchTest, ListOffsetsAnswersEveryItem) {
  proto::ListOffsetsRequest request;
  auto& topic = request.topics.emplace_back();
  topic.name = "t";
  for (int32_t index : {0, 0, 1, 9}) {
    topic.partitions.push_back({.partition_index = index, .timestamp = -1});
  }
  const auto response = Call(request, 6);
  ASSERT_EQ(response.topics[0].partitions.size(), 4u);
  EXPECT_EQ(response.topics[0].partitions[0].error_code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(response.topics[0].partitions[1].error_code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(response.topics[0].partitions[2].error_code, ErrorCode::kNone);
  EXPECT_EQ(response.topics[0].partitions[3].error_code, ErrorCode::kUnknownTopicOrPartition);
}

}  // namespace
}  // namespace gyre
