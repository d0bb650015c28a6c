// What a broker makes of a data directory that was damaged by hand, of partitions
// it cannot make, and of clients that leave without a word.
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "engine/broker/broker.h"
#include "engine/fs/file_system.h"
#include "engine/record/record_batch.h"
#include "gtest/gtest.h"
#include "proto/produce.h"
#include "tests/integration/broker_harness.h"

namespace gyre {
namespace {

class DamageTest : public ::testing::Test, public BrokerHarness {
 protected:
  void SetUp() override {
    options.upkeep_interval_ms = 20;
    ASSERT_TRUE(Start().ok());
  }
  // Topics "a" and "b" with three records each, and a clean stop.
  void FillAndStop() {
    {
      Client client = Connect();
      for (const char* topic : {"a", "b"}) {
        ASSERT_EQ(client.CreateTopic(topic), ErrorCode::kNone);
        for (int i = 0; i < 3; ++i) ASSERT_EQ(client.Produce(topic, Client::Batch("x")), i);
      }
    }
    ASSERT_TRUE(Stop().ok());
  }
  std::string PathOf(absl::string_view name) const {
    return absl::StrCat(options.log_dir, "/", name);
  }
  void Write(absl::string_view name, absl::string_view text) {
    ASSERT_TRUE(files.WriteFileAtomically(PathOf(name), text).ok());
  }
  static ErrorCode ProduceError(Client& client, absl::string_view topic) {
    return client.Call(Client::MakeProduce(topic, Client::Batch("x")), 9)
        .responses.at(0)
        .partition_responses.at(0)
        .error_code;
  }
  static bool AwaitTrue(const std::function<bool()>& holds) {
    for (int i = 0; i < 500; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  FileSystem& files = FileSystem::Real();
};

TEST_F(DamageTest, APartitionThatLostItsMetadataFileKeepsItsRecords) {
  FillAndStop();
  ASSERT_TRUE(files.Remove(PathOf("a-0/partition.metadata")).ok());
  ASSERT_TRUE(Start().ok());
  Client client = Connect();
  EXPECT_EQ(client.Produce("a", Client::Batch("x")), 3);
  ASSERT_TRUE(Stop().ok());
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Connect().Produce("a", Client::Batch("x")), 4);
}

TEST_F(DamageTest, APartitionWithAGarbledMetadataFileIsOfflineUntilItIsRemoved) {
  FillAndStop();
  Write("a-0/partition.metadata", "version: 0\ntopic_id: no\n");
  ASSERT_TRUE(Start().ok());
  {
    Client client = Connect();
    EXPECT_EQ(ProduceError(client, "a"), ErrorCode::kKafkaStorageError);
    EXPECT_EQ(client.Produce("b", Client::Batch("x")), 3);
  }
  Abandon();
  ASSERT_TRUE(files.Remove(PathOf("a-0/partition.metadata")).ok());
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Connect().Produce("a", Client::Batch("x")), 3);
}

TEST_F(DamageTest, FilesOfAnotherTopicIdAreSetAsideNotDeleted) {
  FillAndStop();
  Write("a-0/partition.metadata", "version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBA\n");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Connect().Produce("a", Client::Batch("x")), 0);
  EXPECT_EQ(Connect().Produce("b", Client::Batch("x")), 3);
  const std::vector<std::string> names = *files.List(options.log_dir);
  std::string stray;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, "-stray")) stray = name;
  }
  ASSERT_NE(stray, "");
  EXPECT_GT(files.ReadFile(PathOf(stray + "/00000000000000000000.log"))->size(), 0u);
}

TEST_F(DamageTest, ALostMetadataLogIsNotAnEmptyCluster) {
  FillAndStop();
  const std::string log = PathOf("__cluster_metadata-0/00000000000000000000.log");
  const std::string kept = *files.ReadFile(log);
  // Whole, emptied and removed; with and without what the checkpoint knows.
  for (const bool checkpoint : {true, false}) {
    if (!checkpoint) ASSERT_TRUE(files.Remove(PathOf("recovery-point-offset-checkpoint")).ok());
    Write("__cluster_metadata-0/00000000000000000000.log", "");
    EXPECT_FALSE(Start().ok());
    ASSERT_TRUE(files.Remove(log).ok());
    EXPECT_FALSE(Start().ok());
  }
  Write("__cluster_metadata-0/00000000000000000000.log", kept);
  const absl::Status started = Start();
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_EQ(Connect().Produce("a", Client::Batch("x")), 3);
}

TEST_F(DamageTest, AnEpochCheckpointWithANumberFromNowhereStopsNobody) {
  FillAndStop();
  Write("a-0/leader-epoch-checkpoint", "0\n1\n16 0\n");
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(Connect().Produce("a", Client::Batch("x")), 3);
}

TEST_F(DamageTest, APartitionThatCouldNotBeMadeIsMadeLater) {
  // A file where the partition's directory belongs.
  Write("t-0", "in the way");
  Client client = Connect();
  EXPECT_EQ(client.CreateTopic("t", 2), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(ProduceError(client, "t"), ErrorCode::kKafkaStorageError);
  const std::string health(server->Health().message());
  EXPECT_TRUE(absl::StrContains(health, "1 of 2 partitions of topic t cannot be made (0)"))
      << health;
  ASSERT_TRUE(files.Remove(PathOf("t-0")).ok());
  EXPECT_TRUE(AwaitTrue([&] { return ProduceError(client, "t") == ErrorCode::kNone; }));
  EXPECT_TRUE(AwaitTrue([&] { return server->Health().ok(); })) << server->Health();
}

TEST_F(DamageTest, AFetchOfAClientThatIsGoneDoesNotWaitOutItsTime) {
  Client watcher = Connect();
  ASSERT_EQ(watcher.CreateTopic("t"), ErrorCode::kNone);
  const auto waiting = [&] {
    return absl::StrContains(server->metrics().Exposition(),
                             "kafka_server_delayedoperationpurgatory_numdelayedoperations"
                             "{delayedoperation=\"Fetch\"} 1\n");
  };
  {
    Client leaver = Connect();
    ASSERT_TRUE(leaver.Send(Client::MakeFetch("t", 0, INT32_MAX), 11));
    ASSERT_TRUE(AwaitTrue(waiting));
    leaver.Reset();
  }
  EXPECT_TRUE(AwaitTrue([&] { return !waiting(); }));
}

}  // namespace
}  // namespace gyre
