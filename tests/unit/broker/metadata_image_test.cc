#include "engine/broker/metadata_image.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "engine/broker/metadata_record.h"
#include "engine/broker/metadata_replayer.h"
#include "engine/record/batch_builder.h"
#include "gtest/gtest.h"
#include "proto/abort_transaction_record.h"
#include "proto/begin_transaction_record.h"
#include "proto/config_record.h"
#include "proto/end_transaction_record.h"
#include "proto/feature_level_record.h"
#include "proto/no_op_record.h"
#include "proto/partition_change_record.h"
#include "proto/partition_record.h"
#include "proto/remove_topic_record.h"
#include "proto/topic_record.h"

namespace gyre {
namespace {

constexpr Uuid kId{0x0011223344556677, 0x8899aabbccddeeff};

std::string Topic(absl::string_view name, const Uuid& id = kId) {
  proto::TopicRecord record;
  record.name = name;
  record.topic_id = id;
  return EncodeMetadataRecord(record, 0);
}

std::string Partition(int32_t index, const Uuid& id = kId) {
  proto::PartitionRecord record;
  record.partition_id = index;
  record.topic_id = id;
  record.replicas = {1};
  record.isr = {1};
  record.leader = 1;
  record.leader_epoch = 0;
  record.partition_epoch = 0;
  record.directories = {Uuid{0x1011121314151617, 0x18191a1b1c1d1e1f}};
  return EncodeMetadataRecord(record, 2);
}

std::string Config(absl::string_view topic, absl::string_view name,
                   std::optional<absl::string_view> value) {
  proto::ConfigRecord record;
  record.resource_type = 2;
  record.resource_name = topic;
  record.name = name;
  record.value = value;
  return EncodeMetadataRecord(record, 0);
}

std::string Remove(const Uuid& id = kId) {
  proto::RemoveTopicRecord record;
  record.topic_id = id;
  return EncodeMetadataRecord(record, 0);
}

std::shared_ptr<const MetadataImage> ImageOf(
    const std::vector<std::string>& records,
    std::shared_ptr<const MetadataImage> base = std::make_shared<const MetadataImage>()) {
  MetadataDelta delta(base);
  for (const std::string& record : records) {
    const absl::Status status = delta.Apply(record);
    EXPECT_TRUE(status.ok()) << status;
  }
  return delta.Finish(base->offset() + static_cast<int64_t>(records.size()), 1);
}

TEST(MetadataRecordTest, RecordsHaveKafkasBytes) {
  EXPECT_EQ(absl::BytesToHexString(Topic("t")),
            "01020002740011223344556677"
            "8899aabbccddeeff00");
  EXPECT_EQ(absl::BytesToHexString(Remove()), "01090000112233445566778899aabbccddeeff00");
  EXPECT_EQ(absl::BytesToHexString(Partition(0)),
            "01030200000000"
            "00112233445566778899aabbccddeeff"
            "02000000010200000001010100000001000000000000000002"
            "101112131415161718191a1b1c1d1e1f00");
  EXPECT_EQ(absl::BytesToHexString(Config("t", "retention.ms", "1000")),
            "0104000202740d726574656e74696f6e2e6d73053130303000");
  EXPECT_EQ(absl::BytesToHexString(EncodeMetadataRecord(proto::NoOpRecord(), 0)), "01140000");
}

TEST(MetadataRecordTest, AnotherFrameVersionIsRefused) {
  std::string record = Topic("t");
  record[0] = 0;
  EXPECT_TRUE(absl::IsUnimplemented(ParseMetadataRecord(record).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseMetadataRecord("").status()));
}

TEST(MetadataImageTest, ATopicIsFoundByNameAndById) {
  const auto image = ImageOf({Topic("t"), Config("t", "retention.ms", "1000"), Partition(0)});
  const auto topic = image->FindTopic("t");
  ASSERT_NE(topic, nullptr);
  EXPECT_EQ(topic, image->FindTopic(kId));
  EXPECT_EQ(topic->configs, (TopicConfigOverrides{{"retention.ms", "1000"}}));
  ASSERT_EQ(topic->partitions.size(), 1u);
  EXPECT_EQ(topic->partitions[0].leader, 1);
  EXPECT_EQ(image->topic_count(), 1u);
  EXPECT_EQ(image->offset(), 2);
}

TEST(MetadataImageTest, AnOlderImageDoesNotChange) {
  const auto before = ImageOf({Topic("t"), Partition(0)});
  const auto after = ImageOf({Config("t", "retention.ms", "5"), Topic("u", Uuid{1, 2})}, before);
  EXPECT_TRUE(before->FindTopic("t")->configs.empty());
  EXPECT_EQ(before->FindTopic("u"), nullptr);
  EXPECT_EQ(after->FindTopic("t")->configs.size(), 1u);
  EXPECT_EQ(after->topic_count(), 2u);
}

TEST(MetadataImageTest, RemovingATopicTakesItsConfigsAndPartitions) {
  const auto before = ImageOf({Topic("t"), Config("t", "retention.ms", "5"), Partition(0)});
  MetadataDelta delta(before);
  ASSERT_TRUE(delta.Apply(Remove()).ok());
  ASSERT_EQ(delta.removed_topics().size(), 1u);
  const auto after = delta.Finish(9, 1);
  EXPECT_EQ(after->FindTopic("t"), nullptr);
  EXPECT_EQ(after->FindTopic(kId), nullptr);
  EXPECT_EQ(after->topic_count(), 0u);
}

TEST(MetadataImageTest, ATopicMayComeBackUnderAnotherIdInTheSameBatch) {
  const auto before = ImageOf({Topic("t"), Partition(0)});
  const auto after = ImageOf({Remove(), Topic("t", Uuid{5, 6})}, before);
  EXPECT_EQ(after->FindTopic("t")->id, (Uuid{5, 6}));
  EXPECT_EQ(after->FindTopic(kId), nullptr);
  EXPECT_EQ(after->topic_count(), 1u);
}

TEST(MetadataImageTest, ANullConfigIsRemoved) {
  const auto image = ImageOf(
      {Topic("t"), Config("t", "retention.ms", "5"), Config("t", "retention.ms", std::nullopt)});
  EXPECT_TRUE(image->FindTopic("t")->configs.empty());
}

TEST(MetadataImageTest, CollisionsAreFoundWhileTheOtherTopicLives) {
  auto image = ImageOf({Topic("a.b")});
  EXPECT_EQ(image->FindCollision("a_b"), "a.b");
  EXPECT_EQ(image->FindCollision("a.b"), "");
  EXPECT_EQ(image->FindCollision("a-b"), "");
  image = ImageOf({Remove()}, image);
  EXPECT_EQ(image->FindCollision("a_b"), "");
}

TEST(MetadataImageTest, ANamedLeaderStartsANewLeaderEpoch) {
  proto::PartitionChangeRecord change;
  change.topic_id = kId;
  change.partition_id = 0;
  change.leader = 1;
  auto image = ImageOf({Topic("t"), Partition(0), EncodeMetadataRecord(change, 0)});
  EXPECT_EQ(image->FindTopic("t")->partitions[0].leader_epoch, 1);
  EXPECT_EQ(image->FindTopic("t")->partitions[0].partition_epoch, 1);
  change.leader = -2;
  change.isr = std::vector<int32_t>{1, 2};
  image = ImageOf({EncodeMetadataRecord(change, 0)}, image);
  EXPECT_EQ(image->FindTopic("t")->partitions[0].leader_epoch, 1);
  EXPECT_EQ(image->FindTopic("t")->partitions[0].partition_epoch, 2);
  EXPECT_EQ(image->FindTopic("t")->partitions[0].isr, (std::vector<int32_t>{1, 2}));
}

TEST(MetadataImageTest, RecordsThatDoNotApplyAreErrors) {
  MetadataDelta delta(std::make_shared<const MetadataImage>());
  EXPECT_TRUE(absl::IsInvalidArgument(delta.Apply(Partition(0))));
  EXPECT_TRUE(absl::IsInvalidArgument(delta.Apply(Remove())));
  ASSERT_TRUE(delta.Apply(Topic("t")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(delta.Apply(Topic("t", Uuid{3, 4}))));
  EXPECT_TRUE(absl::IsInvalidArgument(delta.Apply(Partition(-1))));
  EXPECT_TRUE(absl::IsInvalidArgument(delta.Apply(Topic("u", Uuid{3, 4}) + "x")));
  EXPECT_TRUE(absl::IsUnimplemented(delta.Apply(absl::string_view("\x01\x64\x00\x00", 4))));
  EXPECT_TRUE(absl::IsUnimplemented(delta.Apply(absl::string_view("\x01\x02\x07\x00", 4))));
}

TEST(MetadataImageTest, ManyTopicsAreListedInOrder) {
  std::vector<std::string> records;
  for (uint64_t i = 0; i < 1000; ++i) {
    records.push_back(Topic("t" + std::to_string(1000 + i), Uuid{1, i}));
  }
  const auto image = ImageOf(records);
  const auto topics = image->Topics();
  ASSERT_EQ(topics.size(), 1000u);
  EXPECT_EQ(topics.front()->name, "t1000");
  EXPECT_EQ(topics.back()->name, "t1999");
}

std::string Batch(const std::vector<std::string>& records, int64_t base_offset = 0) {
  BatchOptions options;
  options.base_offset = base_offset;
  options.leader_epoch = 3;
  BatchBuilder builder(options);
  for (const std::string& record : records) builder.Add(0, std::nullopt, absl::string_view(record));
  return builder.Build();
}

std::string Begin() { return EncodeMetadataRecord(proto::BeginTransactionRecord(), 0); }
std::string End() { return EncodeMetadataRecord(proto::EndTransactionRecord(), 0); }
std::string Abort() { return EncodeMetadataRecord(proto::AbortTransactionRecord(), 0); }

TEST(MetadataReplayerTest, ATransactionThatEndsIsApplied) {
  MetadataReplayer replayer;
  ASSERT_TRUE(replayer.Apply(Batch({Begin(), Topic("t")}) + Batch({Partition(0), End()}, 2)).ok());
  const auto image = replayer.Finish();
  EXPECT_NE(image->FindTopic("t"), nullptr);
  EXPECT_EQ(image->offset(), 3);
  EXPECT_EQ(replayer.last_epoch(), 3);
}

TEST(MetadataReplayerTest, ATransactionThatIsAbortedOrOpenIsNot) {
  MetadataReplayer aborted;
  ASSERT_TRUE(aborted.Apply(Batch({Topic("a"), Begin(), Topic("t", Uuid{1, 1}), Abort()})).ok());
  auto image = aborted.Finish();
  EXPECT_NE(image->FindTopic("a"), nullptr);
  EXPECT_EQ(image->FindTopic("t"), nullptr);
  MetadataReplayer open;
  ASSERT_TRUE(open.Apply(Batch({Topic("a"), Begin(), Topic("t", Uuid{1, 1})})).ok());
  image = open.Finish();
  EXPECT_NE(image->FindTopic("a"), nullptr);
  EXPECT_EQ(image->FindTopic("t"), nullptr);
}

TEST(MetadataReplayerTest, TransactionsOutOfOrderAreErrors) {
  EXPECT_FALSE(MetadataReplayer().Apply(Batch({Begin(), Begin()})).ok());
  EXPECT_FALSE(MetadataReplayer().Apply(Batch({End()})).ok());
  EXPECT_FALSE(MetadataReplayer().Apply(Batch({Abort()})).ok());
}

TEST(MetadataReplayerTest, RemovedTopicsAreRemembered) {
  MetadataReplayer replayer;
  ASSERT_TRUE(replayer.Apply(Batch({Topic("t"), Begin(), End()}) + Batch({Remove()}, 3)).ok());
  ASSERT_TRUE(replayer.Apply(Batch({Topic("brief", Uuid{1, 1}), Remove(Uuid{1, 1})}, 4)).ok());
  replayer.Finish();
  EXPECT_EQ(replayer.removed_topic_ids(), (std::vector<Uuid>{kId, Uuid{1, 1}}));
}

TEST(MetadataReplayerTest, ABatchThatIsCutIsAnError) {
  const std::string batch = Batch({Topic("t")});
  EXPECT_FALSE(MetadataReplayer().Apply(absl::string_view(batch).substr(0, 40)).ok());
  EXPECT_FALSE(MetadataReplayer().Apply(absl::string_view(batch).substr(0, batch.size() - 1)).ok());
}

}  // namespace
}  // namespace gyre
