// CreateTopics and DeleteTopics, and the metadata log behind them.
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/broker/metadata_record.h"
#include "engine/broker/topic_name.h"
#include "engine/record/batch_builder.h"
#include "gtest/gtest.h"
#include "proto/create_topics.h"
#include "proto/delete_topics.h"
#include "proto/metadata.h"
#include "proto/partition_change_record.h"
#include "proto/partition_record.h"
#include "proto/topic_record.h"
#include "tests/unit/broker/broker_test_util.h"

namespace gyre {
namespace {

class TopicsTest : public BrokerTest {
 protected:
  static proto::CreateTopicsRequest Request(std::vector<absl::string_view> names) {
    proto::CreateTopicsRequest request;
    for (absl::string_view name : names) {
      auto& topic = request.topics.emplace_back();
      topic.name = name;
      topic.num_partitions = 1;
      topic.replication_factor = 1;
    }
    return request;
  }
  bool Exists(absl::string_view name) {
    return broker->metadata().Current()->FindTopic(name) != nullptr;
  }
  // Puts a record behind the others of a broker that is closed.
  void AppendToMetadataLog(const std::string& record) {
    const absl::StatusOr<FileRef> file =
        disk.Open("/data/__cluster_metadata-0/00000000000000000000.log", OpenMode::kReadWrite);
    ASSERT_TRUE(file.ok());
    std::string bytes(static_cast<size_t>(*(*file)->SizeBytes()), '\0');
    ASSERT_TRUE((*file)->ReadExactly(0, bytes.data(), bytes.size()).ok());
    BatchOptions last;
    for (absl::string_view rest = bytes; !rest.empty();) {
      const RecordBatchView batch(rest);
      last.base_offset = batch.next_offset();
      last.leader_epoch = batch.leader_epoch();
      rest.remove_prefix(static_cast<size_t>(batch.size_bytes()));
    }
    const std::string batch = BatchBuilder(last).Add(kTestNow, std::nullopt, record).Build();
    ASSERT_TRUE(
        (*file)->WriteAll(static_cast<int64_t>(bytes.size()), batch.data(), batch.size()).ok());
  }
  ErrorCode Delete(absl::string_view name) {
    proto::DeleteTopicsRequest request;
    request.topic_names = {name};
    return Call(request, 5).responses.at(0).error_code;
  }
};

TEST_F(TopicsTest, EveryVersionCreatesATopicWithTheDefaults) {
  for (int16_t version = 2; version <= 7; ++version) {
    const std::string name = "t" + std::to_string(version);
    proto::CreateTopicsRequest request = Request({name});
    request.topics[0].num_partitions = -1;
    request.topics[0].replication_factor = -1;
    const auto response = Call(request, version);
    ASSERT_EQ(response.topics.size(), 1u);
    EXPECT_EQ(response.topics[0].error_code, ErrorCode::kNone);
    EXPECT_FALSE(response.topics[0].error_message.has_value());
    if (version >= 5) {
      EXPECT_EQ(response.topics[0].num_partitions, 1);
      EXPECT_EQ(response.topics[0].replication_factor, 1);
      EXPECT_GT(response.topics[0].configs->size(), 20u);
    }
    if (version >= 7) {
      EXPECT_EQ(response.topics[0].topic_id, broker->metadata().Current()->FindTopic(name)->id);
    }
  }
}

TEST_F(TopicsTest, ConfigsComeBackWithTheirSource) {
  proto::CreateTopicsRequest request = Request({"t"});
  request.topics[0].configs.push_back({.name = "max.message.bytes", .value = "5000"});
  const auto response = Call(request, 7);
  bool found = false;
  for (const auto& config : *response.topics[0].configs) {
    if (config.name != "max.message.bytes") continue;
    found = true;
    EXPECT_EQ(config.value, "5000");
    EXPECT_EQ(config.config_source, 1);
  }
  EXPECT_TRUE(found);
}

TEST_F(TopicsTest, TopicsOfOneRequestFailOneByOne) {
  ASSERT_EQ(CreateTopic("there"), ErrorCode::kNone);
  proto::CreateTopicsRequest request = Request({"good", "there", "bad name", "wide"});
  request.topics[3].replication_factor = 2;
  const auto response = Call(request, 7);
  ASSERT_EQ(response.topics.size(), 4u);
  for (const auto& topic : response.topics) {
    const ErrorCode want = topic.name == "good"    ? ErrorCode::kNone
                           : topic.name == "there" ? ErrorCode::kTopicAlreadyExists
                           : topic.name == "wide"  ? ErrorCode::kInvalidReplicationFactor
                                                   : ErrorCode::kInvalidTopic;
    EXPECT_EQ(topic.error_code, want) << topic.name;
    EXPECT_EQ(topic.error_message.has_value(), want != ErrorCode::kNone);
  }
  EXPECT_TRUE(Exists("good"));
  EXPECT_FALSE(Exists("wide"));
}

TEST_F(TopicsTest, ANameThatComesTwiceIsRefusedOnce) {
  const auto response = Call(Request({"twice", "once", "twice"}), 7);
  ASSERT_EQ(response.topics.size(), 2u);
  for (const auto& topic : response.topics) {
    EXPECT_EQ(topic.error_code,
              topic.name == "twice" ? ErrorCode::kInvalidRequest : ErrorCode::kNone);
  }
  EXPECT_FALSE(Exists("twice"));
}

TEST_F(TopicsTest, TheMetadataTopicCannotBeCreated) {
  EXPECT_EQ(Call(Request({kMetadataTopicName}), 7).topics.at(0).error_code,
            ErrorCode::kInvalidRequest);
}

TEST_F(TopicsTest, ValidateOnlyChangesNothing) {
  proto::CreateTopicsRequest request = Request({"t", "a b"});
  request.validate_only = true;
  const auto response = Call(request, 7);
  ASSERT_EQ(response.topics.size(), 2u);
  EXPECT_EQ(response.topics[0].error_code, ErrorCode::kNone);
  EXPECT_EQ(response.topics[0].num_partitions, 1);
  EXPECT_EQ(response.topics[1].error_code, ErrorCode::kInvalidTopic);
  EXPECT_FALSE(Exists("t"));
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kNone);
}

TEST_F(TopicsTest, ATopicIsDeletedWithItsDataAndMayComeBack) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  const Uuid id = broker->metadata().Current()->FindTopic("t")->id;
  ASSERT_EQ(Produce("t", MakeBatch("x", 3)).error_code, ErrorCode::kNone);
  EXPECT_EQ(Delete("t"), ErrorCode::kNone);
  EXPECT_FALSE(Exists("t"));
  EXPECT_FALSE(*disk.Exists("/data/t-0"));
  EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kUnknownTopicOrPartition);
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  EXPECT_NE(broker->metadata().Current()->FindTopic("t")->id, id);
  EXPECT_EQ(Produce("t", MakeBatch("x")).base_offset, 0);
}

TEST_F(TopicsTest, TopicsAreDeletedByIdFromVersionSixOn) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  proto::DeleteTopicsRequest request;
  request.topics.emplace_back().topic_id = broker->metadata().Current()->FindTopic("t")->id;
  request.topics.emplace_back().topic_id = Uuid{1, 2};
  request.topics.emplace_back();
  auto& both = request.topics.emplace_back();
  both.name = "t";
  both.topic_id = Uuid{3, 4};
  const auto response = Call(request, 6);
  ASSERT_EQ(response.responses.size(), 4u);
  int ok = 0, unknown = 0, invalid = 0;
  for (const auto& topic : response.responses) {
    if (topic.error_code == ErrorCode::kNone) {
      ++ok;
      EXPECT_EQ(topic.name, "t");
    }
    unknown += topic.error_code == ErrorCode::kUnknownTopicId;
    invalid += topic.error_code == ErrorCode::kInvalidRequest;
  }
  EXPECT_EQ(ok, 1);
  EXPECT_EQ(unknown, 1);
  EXPECT_EQ(invalid, 2);
}

TEST_F(TopicsTest, DeletingWhatIsNotThereIsSaid) {
  EXPECT_EQ(Delete("nothing"), ErrorCode::kUnknownTopicOrPartition);
  proto::DeleteTopicsRequest twice;
  twice.topic_names = {"a", "a"};
  const auto response = Call(twice, 1);
  ASSERT_EQ(response.responses.size(), 1u);
  EXPECT_EQ(response.responses[0].error_code, ErrorCode::kInvalidRequest);
}

TEST_F(TopicsTest, NothingIsToldBeforeItIsDurable) {
  file_io.set_immediate(false);
  const auto create = Send(Request({"t"}), 7);
  EXPECT_FALSE(create->answered());
  EXPECT_FALSE(Exists("t"));
  // A second one is judged with the first in mind, and answered after it: its
  // answer is only true once the first is durable.
  const auto again = Send(Request({"t"}), 7);
  EXPECT_FALSE(again->answered());
  file_io.RunAll();
  Pump();
  ASSERT_TRUE(create->answered());
  EXPECT_TRUE(Exists("t"));
  ASSERT_TRUE(again->answered());
  EXPECT_EQ(again->As<proto::CreateTopicsResponse>(7).topics.at(0).error_code,
            ErrorCode::kTopicAlreadyExists);
  file_io.set_immediate(true);
}

TEST_F(TopicsTest, AFullDiskIsToldAndTopicsAreMadeAgainOnceThereIsRoom) {
  ASSERT_EQ(CreateTopic("before"), ErrorCode::kNone);
  Fault fault{Fault::Operation::kWrite};
  fault.error = ENOSPC;
  fault.path_contains = "__cluster_metadata";
  fault.permanent = true;
  disk.InjectFault(fault);
  // The second rests on the first, whose record does not reach the log.
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(Delete("before"), ErrorCode::kKafkaStorageError);
  EXPECT_FALSE(Exists("t"));
  EXPECT_TRUE(Exists("before"));
  disk.ClearFaults();
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kNone);
  EXPECT_EQ(Delete("before"), ErrorCode::kNone);
  EXPECT_TRUE(Exists("t"));
  EXPECT_FALSE(Exists("before"));
}

TEST_F(TopicsTest, AChangeThatWasWrittenBeforeTheDiskWasFullIsKept) {
  file_io.set_immediate(false);
  const auto written = Send(Request({"written"}), 7);
  Fault fault{Fault::Operation::kWrite};
  fault.error = ENOSPC;
  fault.path_contains = "__cluster_metadata";
  fault.permanent = true;
  disk.InjectFault(fault);
  const auto refused = Send(Request({"refused"}), 7);
  Pump();
  EXPECT_FALSE(written->answered());
  file_io.set_immediate(true);
  file_io.RunAll();
  Pump();
  disk.ClearFaults();
  ASSERT_TRUE(written->answered());
  EXPECT_EQ(written->As<proto::CreateTopicsResponse>(7).topics.at(0).error_code, ErrorCode::kNone);
  ASSERT_TRUE(refused->answered());
  EXPECT_EQ(refused->As<proto::CreateTopicsResponse>(7).topics.at(0).error_code,
            ErrorCode::kKafkaStorageError);
  EXPECT_EQ(CreateTopic("written"), ErrorCode::kTopicAlreadyExists);
  EXPECT_EQ(CreateTopic("refused"), ErrorCode::kNone);
}

TEST_F(TopicsTest, ADiskThatFailsIsToldAndNothingMoreIsAccepted) {
  ASSERT_EQ(CreateTopic("before"), ErrorCode::kNone);
  Fault fault{Fault::Operation::kSync};
  fault.path_contains = "__cluster_metadata";
  fault.permanent = true;
  disk.InjectFault(fault);
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kKafkaStorageError);
  disk.ClearFaults();
  EXPECT_EQ(CreateTopic("u"), ErrorCode::kKafkaStorageError);
  EXPECT_FALSE(Exists("t"));
  EXPECT_EQ(Produce("before", MakeBatch("x")).error_code, ErrorCode::kNone) << "others go on";
}

TEST_F(TopicsTest, ATopicWithPartitionsThatCannotBeMadeIsAnsweredWithAnErrorAndNamed) {
  Fault fault{Fault::Operation::kCreateDirectory};
  fault.path_contains = "wide-2";
  fault.permanent = true;
  disk.InjectFault(fault);
  proto::CreateTopicsRequest request;
  for (const char* name : {"wide", "narrow"}) {
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.num_partitions = 30;
    topic.replication_factor = 1;
  }
  const proto::CreateTopicsResponse response = Call(request, 7);
  for (const auto& topic : response.topics) {
    const bool is_wide = topic.name == "wide";
    EXPECT_EQ(topic.error_code, is_wide ? ErrorCode::kKafkaStorageError : ErrorCode::kNone);
    EXPECT_EQ(absl::StrContains(topic.error_message.value_or(""),
                                "The topic was created, but 11 of 30 partitions of topic wide "
                                "cannot be made (2, 20, 21, 22, 23, 24, 25, 26, 27, 28, ...): "),
              is_wide)
        << topic.error_message.value_or("");
  }
  EXPECT_TRUE(absl::StrContains(broker->Health().message(), "11 of 30 partitions of topic wide"))
      << broker->Health();
  EXPECT_EQ(broker->replicas().unmade_count(), 11);
  EXPECT_EQ(broker->replicas().WhyMissing("wide", 29), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(broker->replicas().WhyMissing("wide", 30), ErrorCode::kUnknownTopicOrPartition);
  disk.ClearFaults();
  broker->RetryUnmadePartitions();
  EXPECT_TRUE(broker->Health().ok()) << broker->Health();
  EXPECT_EQ(broker->replicas().unmade_count(), 0);
}

TEST_F(TopicsTest, ACleanRestartKeepsTopicsIdsConfigsDataAndEpochs) {
  ASSERT_EQ(CreateTopic("t", 2, {{"max.message.bytes", "2000"}}), ErrorCode::kNone);
  ASSERT_EQ(Produce("t", MakeBatch("x", 3)).error_code, ErrorCode::kNone);
  const auto before = broker->metadata().Current()->FindTopic("t");
  ASSERT_TRUE(Close().ok());
  ASSERT_TRUE(Open().ok());
  const auto after = broker->metadata().Current()->FindTopic("t");
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->id, before->id);
  EXPECT_EQ(after->configs, before->configs);
  EXPECT_EQ(after->partitions, before->partitions);
  EXPECT_EQ(broker->replicas().Find("t", 0)->leader_epoch(), 0);
  EXPECT_EQ(broker->replicas().Find("t", 0)->high_watermark(), 3);
  EXPECT_EQ(Produce("t", MakeBatch("x", 1, 3000)).error_code, ErrorCode::kMessageTooLarge);
  EXPECT_EQ(Produce("t", MakeBatch("x")).base_offset, 3);
}

TEST_F(TopicsTest, EachStartIsANewEpochOfTheMetadataLog) {
  const int32_t first = broker->metadata().Current()->epoch();
  EXPECT_EQ(first, 1);
  ASSERT_TRUE(Close().ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(broker->metadata().Current()->epoch(), 2);
  Crash();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(broker->metadata().Current()->epoch(), 3);
}

TEST_F(TopicsTest, AnUncleanStartRaisesEveryLeaderEpochBeforeTheFirstAppend) {
  ASSERT_EQ(CreateTopic("t", 2), ErrorCode::kNone);
  ASSERT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kNone);
  Crash();
  disk.PowerLoss(PowerLossMode::kDropUnsynced);
  ASSERT_TRUE(Open().ok());
  const auto topic = broker->metadata().Current()->FindTopic("t");
  EXPECT_EQ(topic->partitions[0].leader_epoch, 1);
  EXPECT_EQ(topic->partitions[1].leader_epoch, 1);
  EXPECT_EQ(broker->replicas().Find("t", 0)->leader_epoch(), 1);
  EXPECT_EQ(broker->replicas().Find("t", 0)->log().latest_leader_epoch(), 1);
  EXPECT_EQ(broker->replicas().Find("t", 0)->high_watermark(), 1);
  EXPECT_EQ(Produce("t", MakeBatch("y")).base_offset, 1);
}

TEST_F(TopicsTest, PartitionsThatKafkaLeftWithoutALeaderAreLedAgain) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  const Uuid id = broker->metadata().Current()->FindTopic("t")->id;
  ASSERT_TRUE(Close().ok());
  // The last that Kafka writes before it stops cleanly.
  proto::PartitionChangeRecord change;
  change.partition_id = 0;
  change.topic_id = id;
  change.leader = kNoLeader;
  change.isr.emplace();
  AppendToMetadataLog(EncodeMetadataRecord(change, 0));
  ASSERT_TRUE(Open().ok());
  const auto topic = broker->metadata().Current()->FindTopic("t");
  EXPECT_EQ(topic->partitions[0].leader, broker->config().node_id);
  EXPECT_EQ(topic->partitions[0].isr, std::vector<int32_t>{broker->config().node_id});
  EXPECT_EQ(topic->partitions[0].leader_epoch, 2);
  EXPECT_EQ(broker->replicas().Find("t", 0)->leader_epoch(), 2);
  EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kNone);
}

TEST_F(TopicsTest, APartitionOfWhichAnotherReplicaMayKnowMoreStaysWithoutALeader) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  const Uuid id = broker->metadata().Current()->FindTopic("t")->id;
  const int32_t broker_id = broker->config().node_id;
  ASSERT_TRUE(Close().ok());
  proto::PartitionChangeRecord change;
  change.partition_id = 0;
  change.topic_id = id;
  change.leader = kNoLeader;
  change.replicas = std::vector<int32_t>{broker_id, broker_id + 1};
  change.isr = std::vector<int32_t>{broker_id + 1};
  AppendToMetadataLog(EncodeMetadataRecord(change, 0));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(broker->metadata().Current()->FindTopic("t")->partitions[0].leader, kNoLeader);
}

TEST_F(TopicsTest, TheBrokerIsRegisteredAndItsEpochIsTheRecordsOffset) {
  const auto& brokers = broker->metadata().Current()->brokers();
  ASSERT_EQ(brokers.size(), 1u);
  EXPECT_FALSE(brokers.at(1).fenced);
  EXPECT_EQ(brokers.at(1).epoch, broker->metadata_store().broker_epoch());
  EXPECT_EQ(brokers.at(1).endpoints.at(0).host, "127.0.0.1");
  // LeaderChange, 3 bootstrap records, RegisterController, RegisterBroker.
  EXPECT_EQ(brokers.at(1).epoch, 5);
}

TEST_F(TopicsTest, ATopicThatACrashLeftHalfMadeIsThereAfterTheRestart) {
  // The power goes after the metadata record, before the partition's directory.
  Fault fault{Fault::Operation::kCreateDirectory};
  fault.path_contains = "half";
  fault.permanent = true;
  disk.InjectFault(fault);
  CreateTopic("half");
  disk.ClearFaults();
  Crash();
  disk.PowerLoss(PowerLossMode::kDropUnsynced);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Produce("half", MakeBatch("x")).error_code, ErrorCode::kNone);
}

TEST_F(TopicsTest, APartitionWhoseDirectoryIsGoneIsRefusedUntilItsTopicIsDeleted) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  ASSERT_EQ(CreateTopic("u"), ErrorCode::kNone);
  ASSERT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kNone);
  ASSERT_TRUE(Close().ok());
  ASSERT_TRUE(disk.RemoveRecursively("/data/t-0").ok());
  options.seed = 43;  // other topic ids
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kKafkaStorageError);
  EXPECT_TRUE(absl::StrContains(broker->Health().message(), "/data/t-0: is missing"))
      << broker->Health();
  EXPECT_EQ(Produce("u", MakeBatch("x")).error_code, ErrorCode::kNone) << "others go on";
  EXPECT_FALSE(*disk.Exists("/data/t-0"));
  EXPECT_EQ(Delete("t"), ErrorCode::kNone);
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kNone);
  EXPECT_EQ(Produce("t", MakeBatch("x")).base_offset, 0);
  EXPECT_TRUE(Close().ok());
}

TEST_F(TopicsTest, ADataDirectoryThatIsRemovedUnderTheBrokerIsNamed) {
  EXPECT_TRUE(broker->Health().ok()) << broker->Health();
  ASSERT_TRUE(disk.Rename("/data", "/elsewhere").ok());
  EXPECT_TRUE(absl::StrContains(broker->Health().message(), "data directory /data: was removed"))
      << broker->Health();
  ASSERT_TRUE(disk.Rename("/elsewhere", "/data").ok());
  EXPECT_TRUE(broker->Health().ok()) << broker->Health();
}

TEST_F(TopicsTest, AFullDiskIsNamedUntilThereIsRoomOrNobodyAsks) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  for (const bool retried : {true, false}) {
    disk.SetCapacityBytes(0);
    EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kKafkaStorageError);
    EXPECT_TRUE(absl::StrContains(broker->Health().message(),
                                  "partitions that refuse appends: 1; the first: t-0: "))
        << broker->Health();
    disk.SetCapacityBytes(-1);
    if (retried) {
      EXPECT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kNone);
    } else {
      AdvanceMs(61'000);
    }
    EXPECT_TRUE(broker->Health().ok()) << broker->Health();
  }
}

TEST_F(TopicsTest, WhatNoTopicMissesIsForgotten) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  ASSERT_EQ(Produce("t", MakeBatch("x")).error_code, ErrorCode::kNone);
  ASSERT_TRUE(Close().ok());
  // Of a topic that was removed, and of one with fewer partitions.
  ASSERT_TRUE(disk.WriteFileAtomically("/data/recovery-point-offset-checkpoint",
                                       "0\n3\nghost 0 5\nt 0 1\nt 7 5\n")
                  .ok());
  options.seed = 43;  // other topic ids
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Produce("t", MakeBatch("x")).base_offset, 1);
  EXPECT_EQ(broker->logs().Find({"ghost", 0}), nullptr);
  EXPECT_EQ(broker->logs().Find({"t", 7}), nullptr);
  EXPECT_EQ(CreateTopic("ghost"), ErrorCode::kNone);
  EXPECT_EQ(Produce("ghost", MakeBatch("x")).base_offset, 0);
  EXPECT_TRUE(Close().ok());
}

TEST_F(TopicsTest, ATopicThatACrashLeftHalfDeletedIsGoneAfterTheRestart) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  Fault fault{Fault::Operation::kRename};
  fault.path_contains = "t-0";
  fault.permanent = true;
  disk.InjectFault(fault);
  EXPECT_EQ(Delete("t"), ErrorCode::kNone);
  disk.ClearFaults();
  EXPECT_TRUE(*disk.Exists("/data/t-0"));
  Crash();
  ASSERT_TRUE(Open().ok());
  EXPECT_FALSE(Exists("t"));
  EXPECT_FALSE(*disk.Exists("/data/t-0"));
}

TEST_F(TopicsTest, EveryAnsweredCreationSurvivesAPowerLossAtAnyPoint) {
  // Creations go on until the disk stops answering; what was acknowledged must
  // be there afterwards.
  for (uint64_t point = 1; point <= 60; ++point) {
    TestBroker node;
    ASSERT_TRUE(node.Open().ok());
    node.disk.PowerOffAt(point);
    std::vector<std::string> acknowledged;
    for (int i = 0; i < 4; ++i) {
      const std::string name = "t" + std::to_string(i);
      if (node.CreateTopic(name) == ErrorCode::kNone) acknowledged.push_back(name);
    }
    node.Crash();
    node.disk.PowerLoss(PowerLossMode::kDropUnsynced);
    const absl::Status opened = node.Open();
    ASSERT_TRUE(opened.ok()) << "power-off at " << point << ": " << opened;
    for (const std::string& name : acknowledged) {
      EXPECT_NE(node.broker->metadata().Current()->FindTopic(name), nullptr)
          << name << ", power-off at " << point;
      EXPECT_EQ(node.Produce(name, MakeBatch("x")).error_code, ErrorCode::kNone);
    }
  }
}

TEST_F(TopicsTest, WhoLeadsAgainIsNoLongerListedAsEligible) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  const Uuid id = broker->metadata().Current()->FindTopic("t")->id;
  ASSERT_TRUE(Close().ok());
  proto::PartitionChangeRecord change;
  change.partition_id = 0;
  change.topic_id = id;
  change.leader = kNoLeader;
  change.isr.emplace();
  change.eligible_leader_replicas = std::vector<int32_t>{1};
  AppendToMetadataLog(EncodeMetadataRecord(change, 2));
  ASSERT_TRUE(Open().ok());
  const auto topic = broker->metadata().Current()->FindTopic("t");
  EXPECT_EQ(topic->partitions[0].isr, std::vector<int32_t>{1});
  EXPECT_TRUE(topic->partitions[0].eligible_leader_replicas.empty());
}

TEST_F(TopicsTest, ASnapshotStandsForTheBeginningOfTheLog) {
  ASSERT_EQ(CreateTopic("in_the_log"), ErrorCode::kNone);
  ASSERT_TRUE(Close().ok());
  // Offsets 0..3 are the log's own first batches; Kafka would have removed them.
  proto::TopicRecord topic;
  topic.name = "in_the_snapshot";
  topic.topic_id = Uuid{7, 7};
  proto::PartitionRecord partition;
  partition.topic_id = topic.topic_id;
  partition.partition_id = 0;
  partition.replicas = partition.isr = {1};
  partition.leader = 1;
  partition.leader_epoch = partition.partition_epoch = 0;
  const std::string topic_bytes = EncodeMetadataRecord(topic, 0);
  const std::string partition_bytes = EncodeMetadataRecord(partition, 0);
  BatchOptions snapshot;
  snapshot.leader_epoch = 1;
  ASSERT_TRUE(disk.WriteFileAtomically(
                      "/data/__cluster_metadata-0/00000000000000000004-0000000001.checkpoint",
                      BatchBuilder(snapshot)
                          .Add(kTestNow, std::nullopt, absl::string_view(topic_bytes))
                          .Add(kTestNow, std::nullopt, absl::string_view(partition_bytes))
                          .Build())
                  .ok());
  ASSERT_TRUE(disk.WriteFileAtomically("/data/log-start-offset-checkpoint",
                                       "0\n1\n__cluster_metadata 0 4\n")
                  .ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Exists("in_the_snapshot"));
  EXPECT_TRUE(Exists("in_the_log"));
  EXPECT_EQ(Produce("in_the_snapshot", MakeBatch("x")).error_code, ErrorCode::kNone);
}

TEST_F(TopicsTest, ALogWithoutItsBeginningAndWithoutASnapshotIsRefused) {
  ASSERT_TRUE(Close().ok());
  ASSERT_TRUE(disk.WriteFileAtomically("/data/log-start-offset-checkpoint",
                                       "0\n1\n__cluster_metadata 0 4\n")
                  .ok());
  const absl::Status opened = Open();
  EXPECT_TRUE(absl::IsDataLoss(opened)) << opened;
}

}  // namespace
}  // namespace gyre
