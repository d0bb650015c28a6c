// Produce: acks, errors, durability.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/produce.h"
#include "tests/unit/broker/broker_test_util.h"

namespace gyre {
namespace {

class ProduceTest : public BrokerTest {
 protected:
  void SetUp() override {
    BrokerTest::SetUp();
    ASSERT_EQ(CreateTopic("t", 2), ErrorCode::kNone);
  }
  int64_t LogEnd(int32_t partition = 0) {
    return broker->replicas().Find("t", partition)->log().log_end_offset();
  }
  int64_t HighWatermark() { return broker->replicas().Find("t", 0)->high_watermark(); }
};

TEST_F(ProduceTest, EveryServedVersionAppends) {
  int64_t expected = 0;
  for (int16_t version = 3; version <= 11; ++version) {
    const auto partition = Produce("t", MakeBatch("x", 2), -1, version);
    EXPECT_EQ(partition.error_code, ErrorCode::kNone);
    EXPECT_EQ(partition.base_offset, expected);
    EXPECT_EQ(partition.log_append_time_ms, -1);
    if (version >= 5) EXPECT_EQ(partition.log_start_offset, 0);
    expected += 2;
  }
}

TEST_F(ProduceTest, AcksOneIsAnsweredBeforeTheSync) {
  file_io.set_immediate(false);
  const std::string batch = MakeBatch("x");
  const auto exchange = Send(MakeProduce("t", batch, 1), 9);
  ASSERT_TRUE(exchange->answered());
  EXPECT_EQ(exchange->As<proto::ProduceResponse>(9).responses[0].partition_responses[0].error_code,
            ErrorCode::kNone);
  EXPECT_EQ(LogEnd(), 1);
  EXPECT_EQ(HighWatermark(), 0) << "not durable, so not visible";
}

TEST_F(ProduceTest, AcksAllIsAnsweredAfterTheSync) {
  file_io.set_immediate(false);
  const std::string batch = MakeBatch("x");
  const auto exchange = Send(MakeProduce("t", batch, -1), 9);
  EXPECT_FALSE(exchange->answered());
  file_io.RunAll();
  Pump();
  ASSERT_TRUE(exchange->answered());
  const auto response = exchange->As<proto::ProduceResponse>(9);
  EXPECT_EQ(response.responses[0].partition_responses[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(HighWatermark(), 1);
}

TEST_F(ProduceTest, AcksAllOfTheOtherFlushModesWaitsForNoSync) {
  for (FlushMode mode : {FlushMode::kNone, FlushMode::kInterval}) {
    TestBroker node;
    node.options.flush_mode = mode;
    ASSERT_TRUE(node.Open().ok());
    ASSERT_EQ(node.CreateTopic("t"), ErrorCode::kNone);
    node.file_io.set_immediate(false);
    EXPECT_EQ(node.Produce("t", MakeBatch("x")).error_code, ErrorCode::kNone);
    EXPECT_EQ(node.broker->replicas().Find("t", 0)->high_watermark(), 1);
  }
}

TEST_F(ProduceTest, ASyncThatIsTooSlowTimesOutAndKeepsTheData) {
  file_io.set_immediate(false);
  const std::string batch = MakeBatch("x");
  const auto exchange = Send(MakeProduce("t", batch, -1), 9);
  AdvanceMs(999);
  EXPECT_FALSE(exchange->answered());
  AdvanceMs(2);
  ASSERT_TRUE(exchange->answered());
  const auto response = exchange->As<proto::ProduceResponse>(9);
  EXPECT_EQ(response.responses[0].partition_responses[0].error_code, ErrorCode::kRequestTimedOut);
  EXPECT_EQ(response.responses[0].partition_responses[0].base_offset, 0);
  EXPECT_EQ(LogEnd(), 1);
  file_io.RunAll();
  Pump();
  EXPECT_EQ(HighWatermark(), 1);
}

TEST_F(ProduceTest, ASyncThatFailsIsAStorageErrorAndTakesOnlyThatPartitionOffline) {
  Fault fault{Fault::Operation::kSync};
  fault.path_contains = "/t-0/";
  fault.permanent = true;
  disk.InjectFault(fault);
  EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kKafkaStorageError);
  disk.ClearFaults();
  EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kKafkaStorageError);
  EXPECT_TRUE(broker->replicas().IsOffline("t", 0));
  const std::string batch = MakeBatch("x");
  const auto other = Call(MakeProduce("t", batch, -1, 1), 9);
  EXPECT_EQ(other.responses[0].partition_responses[0].error_code, ErrorCode::kNone);
}

TEST_F(ProduceTest, AcksZeroSendsNothingAndClosesOnAnError) {
  const std::string batch = MakeBatch("x");
  const auto good = Send(MakeProduce("t", batch, 0), 9);
  ASSERT_TRUE(good->answered());
  EXPECT_EQ(good->kind(), ResponseKind::kNoOp);
  EXPECT_EQ(LogEnd(), 1);
  const auto bad = Send(MakeProduce("nowhere", batch, 0), 9);
  ASSERT_TRUE(bad->answered());
  EXPECT_EQ(bad->kind(), ResponseKind::kCloseConnection);
}

TEST_F(ProduceTest, OtherAcksAreRefusedAndNothingIsAppended) {
  for (int16_t acks : {2, -2, 32767}) {
    EXPECT_EQ(Produce("t", MakeBatch("x"), acks).error_code, ErrorCode::kInvalidRequiredAcks);
  }
  EXPECT_EQ(LogEnd(), 0);
}

TEST_F(ProduceTest, TransactionsAreRefusedForGood) {
  const std::string batch = MakeBatch("x");
  proto::ProduceRequest request = MakeProduce("t", batch);
  request.transactional_id = "tx";
  EXPECT_EQ(Call(request, 9).responses[0].partition_responses[0].error_code,
            ErrorCode::kTransactionalIdAuthorizationFailed);
  BatchOptions options;
  options.is_transactional = true;
  options.producer_id = 5;
  options.producer_epoch = 0;
  options.base_sequence = 0;
  EXPECT_EQ(Produce("t", MakeBatch("x", 1, 20, kTestNow, options)).error_code,
            ErrorCode::kTransactionalIdAuthorizationFailed);
  EXPECT_EQ(LogEnd(), 0);
}

TEST_F(ProduceTest, AnIdempotentProducersBatchIsAccepted) {
  BatchOptions options;
  options.producer_id = 5;
  options.producer_epoch = 0;
  options.base_sequence = 0;
  EXPECT_EQ(Produce("t", MakeBatch("x", 1, 20, kTestNow, options)).error_code, ErrorCode::kNone);
}

TEST_F(ProduceTest, EachPartitionHasItsOwnOutcome) {
  const std::string good = MakeBatch("x");
  std::string damaged = MakeBatch("y");
  damaged.back() ^= 1;
  proto::ProduceRequest request = MakeProduce("t", good);
  request.topic_data[0].partition_data.push_back(
      {.index = 1, .records = absl::string_view(damaged)});
  request.topic_data[0].partition_data.push_back({.index = 2, .records = absl::string_view(good)});
  request.topic_data[0].partition_data.push_back({.index = -1, .records = absl::string_view(good)});
  auto& unknown = request.topic_data.emplace_back();
  unknown.name = "unknown";
  unknown.partition_data.push_back({.index = 0, .records = absl::string_view(good)});
  const auto response = Call(request, 9);
  ASSERT_EQ(response.responses.size(), 2u);
  const auto& partitions = response.responses[0].partition_responses;
  ASSERT_EQ(partitions.size(), 4u);
  EXPECT_EQ(partitions[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(partitions[1].error_code, ErrorCode::kCorruptMessage);
  EXPECT_EQ(partitions[1].base_offset, -1);
  EXPECT_EQ(partitions[1].log_start_offset, -1);
  EXPECT_EQ(partitions[2].error_code, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(partitions[3].error_code, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(response.responses[1].partition_responses[0].error_code,
            ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(ProduceTest, NoRecordsAtAllAreInvalid) {
  EXPECT_EQ(Produce("t", "").error_code, ErrorCode::kInvalidRecord);
  proto::ProduceRequest request = MakeProduce("t", "");
  request.topic_data[0].partition_data[0].records = wire::RecordsView::Null();
  EXPECT_EQ(Call(request, 9).responses[0].partition_responses[0].error_code,
            ErrorCode::kInvalidRecord);
}

TEST_F(ProduceTest, MaxMessageBytesOfTheTopicTakesEffect) {
  ASSERT_EQ(CreateTopic("small", 1, {{"max.message.bytes", "500"}}), ErrorCode::kNone);
  EXPECT_EQ(Produce("small", MakeBatch("x", 1, 600)).error_code, ErrorCode::kMessageTooLarge);
  EXPECT_EQ(Produce("small", MakeBatch("x", 1, 200)).error_code, ErrorCode::kNone);
}

TEST_F(ProduceTest, ANullKeyOnACompactedTopicNamesTheRecord) {
  ASSERT_EQ(CreateTopic("compacted", 1, {{"cleanup.policy", "compact"}}), ErrorCode::kNone);
  BatchBuilder builder;
  builder.Add(kTestNow, "key", "value").Add(kTestNow, std::nullopt, "value");
  const auto partition = Produce("compacted", builder.Build());
  EXPECT_EQ(partition.error_code, ErrorCode::kInvalidRecord);
  ASSERT_EQ(partition.record_errors.size(), 1u);
  EXPECT_EQ(partition.record_errors[0].batch_index, 1);
}

TEST_F(ProduceTest, LogAppendTimeIsTold) {
  ASSERT_EQ(CreateTopic("stamped", 1, {{"message.timestamp.type", "LogAppendTime"}}),
            ErrorCode::kNone);
  EXPECT_EQ(Produce("stamped", MakeBatch("x", 1, 20, 5)).log_append_time_ms, clock.WallTimeMs());
}

TEST_F(ProduceTest, AProduceThatWaitsForADeletedTopicEnds) {
  file_io.set_immediate(false);
  const std::string batch = MakeBatch("x");
  const auto exchange = Send(MakeProduce("t", batch, -1), 9);
  ASSERT_FALSE(exchange->answered());
  broker->replicas().Apply({broker->metadata().Current()->FindTopic("t")}, {});
  Pump();
  ASSERT_TRUE(exchange->answered());
  EXPECT_EQ(exchange->As<proto::ProduceResponse>(9).responses[0].partition_responses[0].error_code,
            ErrorCode::kUnknownTopicOrPartition);
  file_io.RunAll();
}

TEST_F(ProduceTest, AnAnsweredBatchSurvivesAPowerLoss) {
  ASSERT_EQ(Produce("t", MakeBatch("kept")).error_code, ErrorCode::kNone);
  file_io.set_immediate(false);
  ASSERT_EQ(Produce("t", MakeBatch("only written"), 1).error_code, ErrorCode::kNone);
  broker->DropDelayed();
  disk.PowerLoss(PowerLossMode::kDropUnsynced);
  file_io.set_immediate(true);
  Crash();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(LogEnd(), 1);
}

}  // namespace
}  // namespace gyre
