// Records of Kafka's own logs, byte for byte: metadata log, control records, offsets and
// transactions. The bytes were seen in logs that Apache Kafka 4.4 wrote, except where a
// test says otherwise.
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "proto/begin_transaction_record.h"
#include "proto/broker_registration_change_record.h"
#include "proto/config_record.h"
#include "proto/consumer_protocol_subscription.h"
#include "proto/end_transaction_record.h"
#include "proto/feature_level_record.h"
#include "proto/kraft_version_record.h"
#include "proto/leader_change_message.h"
#include "proto/no_op_record.h"
#include "proto/offset_commit_record.h"
#include "proto/partition_change_record.h"
#include "proto/partition_record.h"
#include "proto/register_broker_record.h"
#include "proto/remove_topic_record.h"
#include "proto/snapshot_footer_record.h"
#include "proto/snapshot_header_record.h"
#include "proto/topic_record.h"
#include "proto/wire/varint.h"
#include "tests/unit/proto/hex.h"

namespace gyre::proto {
namespace {

constexpr Uuid kTopicId{.hi = 0x0011223344556677, .lo = 0x8899aabbccddeeff};
constexpr Uuid kDirectoryId{.hi = 0x1011121314151617, .lo = 0x18191a1b1c1d1e1f};

// The value of a metadata record: frame version 1, record type, record version, body.
template <typename Record>
void ExpectMetadataRecord(const Record& record, int16_t version, absl::string_view hex) {
  std::string value;
  for (int part : {1, int{Record::kRecordType}, int{version}}) {
    char varint[wire::kMaxVarintSize];
    value.append(varint, wire::PutUvarint(varint, static_cast<uint64_t>(part)));
  }
  const std::string body = Encoded(record, version);
  EXPECT_EQ(ToHex(value + body), ToHex(FromHex(hex)));
  EXPECT_TRUE(Decoded<Record>(body, version) == record);
}

template <typename Record>
void ExpectBody(const Record& record, int16_t version, absl::string_view hex) {
  const std::string body = Encoded(record, version);
  EXPECT_EQ(ToHex(body), ToHex(FromHex(hex)));
  EXPECT_TRUE(Decoded<Record>(body, version) == record);
}

TEST(RecordGoldenTest, FeatureLevel) {
  FeatureLevelRecord record;
  record.name = "group.version";
  record.feature_level = 1;
  ExpectMetadataRecord(record, 0, "01 0c 00 0e 67726f75702e76657273696f6e 0001 00");
}

TEST(RecordGoldenTest, TopicAndItsRemoval) {
  TopicRecord record;
  record.name = "t";
  record.topic_id = kTopicId;
  ExpectMetadataRecord(record, 0, "01 02 00 02 74 00112233445566778899aabbccddeeff 00");
  RemoveTopicRecord removal;
  removal.topic_id = kTopicId;
  ExpectMetadataRecord(removal, 0, "01 09 00 00112233445566778899aabbccddeeff 00");
}

TEST(RecordGoldenTest, PartitionWithDirectories) {
  PartitionRecord record;
  record.partition_id = 0;
  record.topic_id = kTopicId;
  record.replicas = {1};
  record.isr = {1};
  record.leader = 1;
  record.leader_epoch = 0;
  record.partition_epoch = 0;
  record.directories = {kDirectoryId};
  ExpectMetadataRecord(record, 2,
                       "01 03 02 00000000 00112233445566778899aabbccddeeff 02 00000001 02 00000001"
                       "01 01 00000001 00000000 00000000 02 101112131415161718191a1b1c1d1e1f 00");
}

TEST(RecordGoldenTest, PartitionChangeHoldsOnlyWhatChanged) {
  PartitionChangeRecord record;
  record.partition_id = 0;
  record.topic_id = kTopicId;
  record.isr = {1};
  record.leader = 1;
  record.eligible_leader_replicas = {2};
  ExpectMetadataRecord(record, 2,
                       "01 05 02 00000000 00112233445566778899aabbccddeeff 03"
                       "00 05 02 00000001 01 04 00000001 06 05 02 00000002");
}

TEST(RecordGoldenTest, ConfigAndItsRemoval) {
  ConfigRecord record;
  record.resource_type = 2;
  record.resource_name = "t";
  record.name = "retention.ms";
  record.value = "1000";
  ExpectMetadataRecord(record, 0, "01 04 00 02 02 74 0d 726574656e74696f6e2e6d73 05 31303030 00");
  record.value.reset();
  ExpectMetadataRecord(record, 0, "01 04 00 02 02 74 0d 726574656e74696f6e2e6d73 00 00");
}

TEST(RecordGoldenTest, BrokerRegistrationChange) {
  BrokerRegistrationChangeRecord record;
  record.broker_id = 1;
  record.broker_epoch = 14;
  record.fenced = -1;
  ExpectMetadataRecord(record, 0, "01 11 00 00000001 000000000000000e 01 00 01 ff");
  record.fenced = 0;
  record.in_controlled_shutdown = 1;
  ExpectMetadataRecord(record, 1, "01 11 01 00000001 000000000000000e 01 01 01 01");
  record.in_controlled_shutdown = 0;
  record.cordoned_log_dirs.emplace();  // cordon none, which is not the same as null
  ExpectMetadataRecord(record, 3, "01 11 03 00000001 000000000000000e 01 03 01 01");
}

// Made with another codec of the protocol.
TEST(RecordGoldenTest, RegisterBroker) {
  RegisterBrokerRecord record;
  record.broker_id = 1;
  record.incarnation_id = kTopicId;
  record.broker_epoch = 14;
  auto& endpoint = record.end_points.emplace_back();
  endpoint.name = "PLAINTEXT";
  endpoint.host = "localhost";
  endpoint.port = 9092;
  auto& feature = record.features.emplace_back();
  feature.name = "metadata.version";
  feature.min_supported_version = 7;
  feature.max_supported_version = 33;
  record.rack.reset();
  record.log_dirs = {kDirectoryId};
  ExpectMetadataRecord(record, 4,
                       "01 00 04 "
                       "000000010000112233445566778899aabbccddeeff000000000000000e020a504c41494e544"
                       "558540a6c6f63616c686f7374238400000002116d657461646174612e76657273696f6e0007"
                       "00210000010001001102101112131415161718191a1b1c1d1e1f");
  ExpectMetadataRecord(record, 3,
                       "01 00 03 "
                       "000000010000112233445566778899aabbccddeeff000000000000000e020a504c41494e544"
                       "558540a6c6f63616c686f7374238400000002116d657461646174612e76657273696f6e0007"
                       "00210000010001001102101112131415161718191a1b1c1d1e1f");
}

TEST(RecordGoldenTest, MetadataTransactions) {
  ExpectMetadataRecord(NoOpRecord(), 0, "01 14 00 00");
  ExpectMetadataRecord(EndTransactionRecord(), 0, "01 18 00 00");
  BeginTransactionRecord record;
  record.name = "Bootstrap records";
  ExpectMetadataRecord(record, 0, "01 17 00 01 00 12 12 426f6f747374726170207265636f726473");
}

TEST(RecordGoldenTest, ControlRecords) {
  LeaderChangeMessage leader;
  leader.leader_id = 1;
  leader.voters.emplace_back().voter_id = 1;
  leader.granting_voters.emplace_back().voter_id = 1;
  ExpectBody(leader, 0, "0000 00000001 02 00000001 00 02 00000001 00 00");
  KraftVersionRecord kraft;
  kraft.kraft_version = 1;
  ExpectBody(kraft, 0, "0000 0001 00");
  ExpectBody(SnapshotHeaderRecord(), 0, "0000 0000000000000000 00");
  ExpectBody(SnapshotFooterRecord(), 0, "0000 00");
}

// The version that starts keys (their type) and values is not part of the body.
TEST(RecordGoldenTest, CommittedOffset) {
  OffsetCommitKey key;
  key.group = "g";
  key.topic = "t";
  EXPECT_EQ(OffsetCommitKey::kRecordType, 1);
  ExpectBody(key, 0, "0001 67 0001 74 00000000");
  OffsetCommitValue value;
  value.offset = 42;
  value.commit_timestamp = 1000;
  ExpectBody(value, 3, "000000000000002a ffffffff 0000 00000000000003e8");
}

TEST(RecordGoldenTest, ConsumerSubscription) {
  ConsumerProtocolSubscription subscription;
  subscription.topics = {"t"};
  ExpectBody(subscription, 1, "00000001 0001 74 ffffffff 00000000");
}

}  // namespace
}  // namespace gyre::proto
