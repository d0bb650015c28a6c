// The whole broker over real sockets: what other tests cannot show without
// threads, rings and files.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/broker/broker.h"
#include "engine/record/record.h"
#include "engine/record/record_batch.h"
#include "gtest/gtest.h"
#include "proto/api_versions.h"
#include "proto/delete_topics.h"
#include "proto/list_offsets.h"
#include "proto/metadata.h"
#include "tests/integration/broker_harness.h"

namespace gyre {
namespace {

// Every test runs with all io_uring features, and as on the oldest kernel.
class BrokerServerTest : public ::testing::TestWithParam<bool>, public BrokerHarness {
 protected:
  void SetUp() override {
    if (GetParam()) options.uring_hidden = uring::FeatureSet::All();
    const absl::Status started = Start();
    ASSERT_TRUE(started.ok()) << started;
  }
};

INSTANTIATE_TEST_SUITE_P(Features, BrokerServerTest, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Hidden" : "All"; });

int64_t LastOffset(absl::string_view records) {
  int64_t last = -1;
  while (!records.empty()) {
    EXPECT_EQ(CheckBatchShape(records), BatchShape::kOk);
    const RecordBatchView batch(records);
    EXPECT_EQ(batch.base_offset(), last + 1);
    last = batch.last_offset();
    records.remove_prefix(static_cast<size_t>(batch.size_bytes()));
  }
  return last;
}

TEST_P(BrokerServerTest, AClientFindsItsWayFromApiVersionsToRecords) {
  Client client = Connect();
  proto::ApiVersionsRequest hello;
  hello.client_software_name = "test";
  hello.client_software_version = "1";
  EXPECT_EQ(client.Call(hello, 3).error_code, ErrorCode::kNone);
  const auto metadata = client.Call(proto::MetadataRequest(), 9);
  EXPECT_EQ(metadata.brokers.at(0).host, "127.0.0.1");
  EXPECT_EQ(metadata.brokers.at(0).port, port());
  ASSERT_EQ(client.CreateTopic("t"), ErrorCode::kNone);
  EXPECT_EQ(client.Produce("t", Client::Batch("hello", 3)), 0);
  EXPECT_EQ(client.Produce("t", Client::Batch("again")), 3);
  EXPECT_EQ(LastOffset(client.Fetch("t", 0)), 3);
}

TEST_P(BrokerServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Client client = Connect();
  ASSERT_EQ(client.CreateTopic("t"), ErrorCode::kNone);
  const std::string batch = Client::Batch("x");
  for (int32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(client.Send(Client::MakeProduce("t", batch), 9, i));
  }
  for (int32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(client.Receive());
    const auto response = client.As<proto::ProduceResponse>(9, i);
    EXPECT_EQ(response.responses.at(0).partition_responses.at(0).base_offset, i);
  }
}

// As gyred runs by default: several produces of one connection in flight.
class BrokerPipeliningTest : public BrokerServerTest {
 protected:
  void SetUp() override {
    options.network.num_io_threads = 4;
    options.network.processor.connection.max_in_flight_requests_per_connection = 5;
    BrokerServerTest::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Features, BrokerPipeliningTest, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Hidden" : "All"; });

TEST_P(BrokerPipeliningTest, ProducesSentAheadArriveInOrderWhateverAcksTheyAskFor) {
  constexpr int kProducers = 3, kBatches = 120;
  ASSERT_EQ(Connect().CreateTopic("t"), ErrorCode::kNone);
  std::atomic<int> wrong{0};
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      Client client = Connect();
      for (int32_t i = 0; i < kBatches; ++i) {
        const auto acks = static_cast<int16_t>(i == kBatches - 1 ? -1 : (i + p) % 3 - 1);
        const std::string batch = Client::Batch(absl::StrCat(p, ":", i));
        if (!client.Send(Client::MakeProduce("t", batch, acks), 9, i)) wrong.fetch_add(1);
      }
      int64_t last_offset = -1;
      for (int32_t i = 0; i < kBatches; ++i) {
        if (i != kBatches - 1 && (i + p) % 3 - 1 == 0) continue;
        if (!client.Receive()) return void(wrong.fetch_add(1));
        const int64_t offset = client.As<proto::ProduceResponse>(9, i)
                                   .responses.at(0)
                                   .partition_responses.at(0)
                                   .base_offset;
        if (offset <= last_offset) wrong.fetch_add(1);
        last_offset = offset;
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(wrong, 0);
  // What each of them sent, in the order of the log.
  std::vector<int> next(kProducers, 0);
  const std::string log = Connect().Fetch("t", 0);
  for (absl::string_view bytes = log; !bytes.empty();) {
    const RecordBatchView batch(bytes);
    RecordReader reader(batch, batch.payload());
    Record record;
    ASSERT_TRUE(reader.Next(&record));
    const std::pair<std::string, std::string> value = absl::StrSplit(*record.value, ':');
    int producer = 0;
    ASSERT_TRUE(absl::SimpleAtoi(value.first, &producer));
    EXPECT_EQ(value.second, absl::StrCat(next[static_cast<size_t>(producer)]++));
    bytes.remove_prefix(static_cast<size_t>(batch.size_bytes()));
  }
  EXPECT_EQ(next, std::vector<int>(kProducers, kBatches));
}

TEST_P(BrokerPipeliningTest, ARequestSeesWhatThoseSentBeforeItDid) {
  options.broker.auto_create_topics_enable = false;
  ASSERT_TRUE(Stop().ok());
  ASSERT_TRUE(Start().ok());
  Client client = Connect();
  const std::string batch = Client::Batch("x");
  for (int32_t round = 0; round < 20; ++round) {
    const std::string topic = absl::StrCat("topic-", round);
    proto::CreateTopicsRequest create;
    auto& wanted = create.topics.emplace_back();
    wanted.name = topic;
    wanted.num_partitions = 1;
    wanted.replication_factor = 1;
    ASSERT_TRUE(client.Send(create, 5, 1));
    ASSERT_TRUE(client.Send(Client::MakeProduce(topic, batch), 9, 2));
    ASSERT_TRUE(client.Send(Client::MakeProduce(topic, batch), 9, 3));
    ASSERT_TRUE(client.Send(Client::MakeFetch(topic, 0), 12, 4));
    ASSERT_TRUE(client.Receive());
    EXPECT_EQ(client.As<proto::CreateTopicsResponse>(5, 1).topics.at(0).error_code,
              ErrorCode::kNone);
    for (int32_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(client.Receive());
      EXPECT_EQ(client.As<proto::ProduceResponse>(9, 2 + i)
                    .responses.at(0)
                    .partition_responses.at(0)
                    .base_offset,
                i);
    }
    ASSERT_TRUE(client.Receive());
    const auto fetched = client.As<proto::FetchResponse>(12, 4);
    EXPECT_EQ(LastOffset(fetched.responses.at(0).partitions.at(0).records.bytes()), 1);
  }
}

TEST_P(BrokerServerTest, LargeBatchesGoInAndComeOutByteForByte) {
  options.broker.topic_defaults.max_message_bytes = 32 << 20;
  ASSERT_TRUE(Stop().ok());
  ASSERT_TRUE(Start().ok());
  Client client = Connect();
  ASSERT_EQ(client.CreateTopic("t"), ErrorCode::kNone);
  for (const size_t size_bytes : {size_t{1} << 20, size_t{10} << 20}) {
    const std::string batch = Client::Batch(std::string(size_bytes, 'v'));
    const int64_t offset = client.Produce("t", batch);
    ASSERT_GE(offset, 0);
    const std::string read = client.Fetch("t", offset);
    ASSERT_EQ(read.size(), batch.size());
    // All but base offset and leader epoch is as it came.
    EXPECT_EQ(read.substr(batch::kMagicAt), batch.substr(batch::kMagicAt));
  }
}

TEST_P(BrokerServerTest, AFetchThatWaitsIsWokenByAnotherConnectionsProduce) {
  Client reader = Connect(), writer = Connect();
  ASSERT_EQ(writer.CreateTopic("t"), ErrorCode::kNone);
  ASSERT_TRUE(reader.Send(Client::MakeFetch("t", 0, 15'000), 11));
  EXPECT_FALSE(reader.HasBytesWithin(100));
  ASSERT_EQ(writer.Produce("t", Client::Batch("x")), 0);
  EXPECT_TRUE(reader.HasBytesWithin(5'000));
  ASSERT_TRUE(reader.Receive());
  EXPECT_FALSE(
      reader.As<proto::FetchResponse>(11).responses.at(0).partitions.at(0).records.empty());
}

TEST_P(BrokerServerTest, ManyWritersAndAReaderSeeOneOrder) {
  constexpr int kWriters = 4, kBatches = 100;
  ASSERT_EQ(Connect().CreateTopic("t"), ErrorCode::kNone);
  std::atomic<int> failed{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&] {
      Client client = Connect();
      int64_t last = -1;
      for (int i = 0; i < kBatches; ++i) {
        const int64_t offset = client.Produce("t", Client::Batch("w"), i % 2 == 0 ? -1 : 1);
        if (offset <= last) failed.fetch_add(1);
        last = offset;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed.load(), 0);
  // What was only written is settled by the next group commit at the latest.
  ASSERT_EQ(Connect().Produce("t", Client::Batch("last")), kWriters * kBatches);
  EXPECT_EQ(LastOffset(Connect().Fetch("t", 0)), kWriters * kBatches);
}

TEST_P(BrokerServerTest, AMissingTopicIsThereWhenAskedForAgain) {
  Client client = Connect();
  proto::MetadataRequest request;
  request.topics->emplace_back().name = "new";
  ErrorCode error = client.Call(request, 4).topics.at(0).error_code;
  EXPECT_EQ(error, ErrorCode::kUnknownTopicOrPartition);
  for (int i = 0; i < 200 && error != ErrorCode::kNone; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    error = client.Call(request, 4).topics.at(0).error_code;
  }
  EXPECT_EQ(error, ErrorCode::kNone);
}

TEST_P(BrokerServerTest, WhatCannotBeServedClosesThatConnectionOnly) {
  Client good = Connect();
  ASSERT_EQ(good.CreateTopic("t"), ErrorCode::kNone);
  for (absl::string_view bytes :
       {absl::string_view("GET / HTTP/1.1\r\n\r\n"), absl::string_view("\xff\xff\xff\xff", 4),
        absl::string_view("\0\0\0\x08\0\x0b\0\0\0\0\0\x01", 12),
        absl::string_view("\0\0\0\x0a\0\0\0\x02\0\0\0\x01\xff\xff", 14)}) {
    Client bad = Connect();
    ASSERT_TRUE(bad.SendBytes(bytes));
    EXPECT_TRUE(bad.IsClosedByPeer());
  }
  EXPECT_EQ(good.Produce("t", Client::Batch("x")), 0);
}

TEST_P(BrokerServerTest, ACleanRestartKeepsEverything) {
  {
    Client client = Connect();
    ASSERT_EQ(client.CreateTopic("kept", 2), ErrorCode::kNone);
    ASSERT_EQ(client.CreateTopic("gone"), ErrorCode::kNone);
    ASSERT_EQ(client.Produce("kept", Client::Batch("x", 5)), 0);
    proto::DeleteTopicsRequest request;
    request.topic_names = {"gone"};
    ASSERT_EQ(client.Call(request, 4).responses.at(0).error_code, ErrorCode::kNone);
  }
  const Uuid id = server->broker().metadata().Current()->FindTopic("kept")->id;
  const std::string cluster_id = server->broker().config().cluster_id;
  ASSERT_TRUE(Stop().ok());
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(server->broker().directory().was_clean_stop());
  EXPECT_EQ(server->broker().config().cluster_id, cluster_id);
  Client client = Connect();
  const auto metadata = client.Call(proto::MetadataRequest(), 0);
  ASSERT_EQ(metadata.topics.size(), 1u);
  EXPECT_EQ(metadata.topics[0].name, "kept");
  EXPECT_EQ(metadata.topics[0].partitions.size(), 2u);
  EXPECT_EQ(server->broker().metadata().Current()->FindTopic("kept")->id, id);
  EXPECT_EQ(LastOffset(client.Fetch("kept", 0)), 4);
  EXPECT_EQ(client.Produce("kept", Client::Batch("x")), 5);
}

TEST_P(BrokerServerTest, AnUncleanRestartRaisesTheLeaderEpoch) {
  {
    Client client = Connect();
    ASSERT_EQ(client.CreateTopic("t"), ErrorCode::kNone);
    ASSERT_EQ(client.Produce("t", Client::Batch("x")), 0);
  }
  Abandon();
  ASSERT_TRUE(Start().ok());
  EXPECT_FALSE(server->broker().directory().was_clean_stop());
  Client client = Connect();
  ASSERT_EQ(client.Produce("t", Client::Batch("y")), 1);
  const std::string records = client.Fetch("t", 1);
  EXPECT_EQ(RecordBatchView(records).leader_epoch(), 1);
}

TEST_P(BrokerServerTest, ADrainAnswersAFetchThatWaitsAndEnds) {
  Client client = Connect();
  ASSERT_EQ(client.CreateTopic("t"), ErrorCode::kNone);
  ASSERT_TRUE(client.Send(Client::MakeFetch("t", 0, 60'000), 11));
  ASSERT_FALSE(client.HasBytesWithin(200));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(Stop().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_TRUE(client.Receive());
  EXPECT_EQ(client.As<proto::FetchResponse>(11).responses.at(0).partitions.at(0).error_code,
            ErrorCode::kNone);
  EXPECT_TRUE(client.IsClosedByPeer());
}

TEST_P(BrokerServerTest, TwoBrokersCannotShareADirectoryOrAPort) {
  BrokerServer second(options);
  const absl::Status locked = second.Start();
  EXPECT_FALSE(locked.ok());
  EXPECT_EQ(locked.message().find('\n'), absl::string_view::npos);
  BrokerHarness other;
  other.options.network.listeners[0].endpoint.port = port();
  const absl::Status taken = other.Start();
  EXPECT_FALSE(taken.ok());
  EXPECT_EQ(taken.message().find('\n'), absl::string_view::npos);
  EXPECT_EQ(Connect().CreateTopic("t"), ErrorCode::kNone) << "the first one goes on";
}

TEST_P(BrokerServerTest, TheOtherFlushModesServeAsWell) {
  for (FlushMode mode : {FlushMode::kInterval, FlushMode::kNone}) {
    ASSERT_TRUE(Stop().ok());
    options.flush_mode = mode;
    options.flush_interval_ms = 10;
    ASSERT_TRUE(Start().ok());
    Client client = Connect();
    const std::string topic(FlushModeName(mode));
    ASSERT_EQ(client.CreateTopic(topic), ErrorCode::kNone);
    ASSERT_EQ(client.Produce(topic, Client::Batch("x")), 0);
    EXPECT_EQ(LastOffset(client.Fetch(topic, 0)), 0);
  }
}

}  // namespace
}  // namespace gyre
