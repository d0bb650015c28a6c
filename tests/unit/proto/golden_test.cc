// Bodies of the messages that the server speaks, byte for byte.
//
// The bytes come from another codec of the protocol, which agrees with kafka-python's on
// every message. Each field has a value of its own, so that no two can be swapped; a field
// that a version lacks is left out there.
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "proto/api_versions.h"
#include "proto/create_topics.h"
#include "proto/delete_topics.h"
#include "proto/describe_cluster.h"
#include "proto/fetch.h"
#include "proto/find_coordinator.h"
#include "proto/list_offsets.h"
#include "proto/metadata.h"
#include "proto/produce.h"
#include "proto/request_header.h"
#include "proto/response_header.h"
#include "proto/wire/reader.h"
#include "tests/unit/proto/hex.h"

namespace gyre::proto {
namespace {

// `message` has this encoding in the versions from..to, and the encoding is decoded to
// what it came from.
template <typename Message>
void ExpectGolden(const Message& message, int16_t from, int16_t to, absl::string_view hex) {
  for (int16_t version = from; version <= to; ++version) {
    SCOPED_TRACE(version);
    EXPECT_EQ(ToHex(Encoded(message, version)), hex);
    const std::string bytes = FromHex(hex);
    wire::Reader reader(bytes);
    Message decoded;
    EXPECT_TRUE(decoded.Decode(reader, version));
    EXPECT_EQ(reader.remaining(), 0u);
    EXPECT_EQ(ToHex(Encoded(decoded, version)), hex);
  }
}

TEST(GoldenTest, ApiVersionsRequest) {
  ApiVersionsRequest message;
  message.client_software_name = "client-software-name-1";
  message.client_software_version = "client-software-version-2";
  message.cluster_id = "cluster-id-3";
  message.node_id = 400007;
  ExpectGolden(message, 0, 2, "");
  ExpectGolden(
      message, 3, 4,
      "17636c69656e742d736f6674776172652d6e616d652d311a636c69656e742d736f6674776172652d7665"
      "7273696f6e2d3200");
}

TEST(GoldenTest, ApiVersionsResponse) {
  ApiVersionsResponse message;
  message.error_code = ErrorCode::kOffsetOutOfRange;
  auto& api_key = message.api_keys.emplace_back();
  api_key.api_key = 201;
  api_key.min_version = 301;
  api_key.max_version = 401;
  message.throttle_time_ms = 500007;
  auto& supported_feature = message.supported_features.emplace_back();
  supported_feature.name = "name-6";
  supported_feature.min_version = 701;
  supported_feature.max_version = 801;
  message.finalized_features_epoch = 90000000009;
  auto& finalized_feature = message.finalized_features.emplace_back();
  finalized_feature.name = "name-10";
  finalized_feature.max_version_level = 1101;
  finalized_feature.min_version_level = 1201;
  message.zk_migration_ready = true;
  ExpectGolden(message, 0, 0, "00010000000100c9012d0191");
  ExpectGolden(message, 1, 2, "00010000000100c9012d01910007a127");
  ExpectGolden(
      message, 3, 4,
      "00010200c9012d0191000007a12704000d02076e616d652d3602bd032100010800000014f46b0409020e"
      "02086e616d652d3130044d04b100030101");
}

TEST(GoldenTest, MetadataRequest) {
  MetadataRequest message;
  message.topics.emplace();
  auto& topic = message.topics->emplace_back();
  topic.topic_id = Uuid{1, 1001};
  topic.name = "name-2";
  message.allow_auto_topic_creation = false;
  message.include_cluster_authorized_operations = true;
  message.include_topic_authorized_operations = true;
  ExpectGolden(message, 0, 3, "0000000100066e616d652d32");
  ExpectGolden(message, 4, 7, "0000000100066e616d652d3200");
  ExpectGolden(message, 8, 8, "0000000100066e616d652d32000101");
  ExpectGolden(message, 9, 9, "02076e616d652d320000010100");
  ExpectGolden(message, 10, 10, "02000000000000000100000000000003e9076e616d652d320000010100");
  ExpectGolden(message, 11, 12, "02000000000000000100000000000003e9076e616d652d3200000100");
}

TEST(GoldenTest, MetadataResponse) {
  MetadataResponse message;
  message.throttle_time_ms = 100007;
  auto& broker = message.brokers.emplace_back();
  broker.node_id = 200007;
  broker.host = "host-3";
  broker.port = 400007;
  broker.rack = "rack-5";
  message.cluster_id = "cluster-id-6";
  message.controller_id = 700007;
  auto& topic = message.topics.emplace_back();
  topic.error_code = ErrorCode::kBrokerNotAvailable;
  topic.name = "name-9";
  topic.topic_id = Uuid{10, 1010};
  topic.is_internal = true;
  auto& partition = topic.partitions.emplace_back();
  partition.error_code = ErrorCode::kOffsetMetadataTooLarge;
  partition.partition_index = 1300007;
  partition.leader_id = 1400007;
  partition.leader_epoch = 1500007;
  partition.replica_nodes = {1600007};
  partition.isr_nodes = {1700007};
  partition.offline_replicas = {1800007};
  topic.topic_authorized_operations = 1900007;
  message.cluster_authorized_operations = 2000007;
  message.error_code = ErrorCode::kInvalidRequiredAcks;
  ExpectGolden(
      message, 0, 0,
      "0000000100030d470006686f73742d3300061a8700000001000800066e616d652d3900000001000c0013"
      "d62700155cc70000000100186a07000000010019f0a7");
  ExpectGolden(
      message, 1, 1,
      "0000000100030d470006686f73742d3300061a8700067261636b2d35000aae6700000001000800066e61"
      "6d652d390100000001000c0013d62700155cc70000000100186a07000000010019f0a7");
  ExpectGolden(
      message, 2, 2,
      "0000000100030d470006686f73742d3300061a8700067261636b2d35000c636c75737465722d69642d36"
      "000aae6700000001000800066e616d652d390100000001000c0013d62700155cc70000000100186a0700"
      "0000010019f0a7");
  ExpectGolden(
      message, 3, 4,
      "000186a70000000100030d470006686f73742d3300061a8700067261636b2d35000c636c75737465722d"
      "69642d36000aae6700000001000800066e616d652d390100000001000c0013d62700155cc70000000100"
      "186a07000000010019f0a7");
  ExpectGolden(
      message, 5, 6,
      "000186a70000000100030d470006686f73742d3300061a8700067261636b2d35000c636c75737465722d"
      "69642d36000aae6700000001000800066e616d652d390100000001000c0013d62700155cc70000000100"
      "186a07000000010019f0a700000001001b7747");
  ExpectGolden(
      message, 7, 7,
      "000186a70000000100030d470006686f73742d3300061a8700067261636b2d35000c636c75737465722d"
      "69642d36000aae6700000001000800066e616d652d390100000001000c0013d62700155cc70016e36700"
      "00000100186a07000000010019f0a700000001001b7747");
  ExpectGolden(
      message, 8, 8,
      "000186a70000000100030d470006686f73742d3300061a8700067261636b2d35000c636c75737465722d"
      "69642d36000aae6700000001000800066e616d652d390100000001000c0013d62700155cc70016e36700"
      "00000100186a07000000010019f0a700000001001b7747001cfde7001e8487");
  ExpectGolden(
      message, 9, 9,
      "000186a70200030d4707686f73742d3300061a87077261636b2d35000d636c75737465722d69642d3600"
      "0aae67020008076e616d652d390102000c0013d62700155cc70016e3670200186a07020019f0a702001b"
      "774700001cfde700001e848700");
  ExpectGolden(
      message, 10, 10,
      "000186a70200030d4707686f73742d3300061a87077261636b2d35000d636c75737465722d69642d3600"
      "0aae67020008076e616d652d39000000000000000a00000000000003f20102000c0013d62700155cc700"
      "16e3670200186a07020019f0a702001b774700001cfde700001e848700");
  ExpectGolden(
      message, 11, 12,
      "000186a70200030d4707686f73742d3300061a87077261636b2d35000d636c75737465722d69642d3600"
      "0aae67020008076e616d652d39000000000000000a00000000000003f20102000c0013d62700155cc700"
      "16e3670200186a07020019f0a702001b774700001cfde70000");
}

TEST(GoldenTest, CreateTopicsRequest) {
  CreateTopicsRequest message;
  auto& topic = message.topics.emplace_back();
  topic.name = "name-1";
  topic.num_partitions = 200007;
  topic.replication_factor = 301;
  auto& assignment = topic.assignments.emplace_back();
  assignment.partition_index = 400007;
  assignment.broker_ids = {500007};
  auto& config = topic.configs.emplace_back();
  config.name = "name-6";
  config.value = "value-7";
  message.timeout_ms = 800007;
  message.validate_only = true;
  ExpectGolden(
      message, 2, 4,
      "0000000100066e616d652d3100030d47012d0000000100061a87000000010007a1270000000100066e61"
      "6d652d36000776616c75652d37000c350701");
  ExpectGolden(
      message, 5, 7,
      "02076e616d652d3100030d47012d0200061a87020007a1270002076e616d652d360876616c75652d3700"
      "00000c35070100");
}

TEST(GoldenTest, CreateTopicsResponse) {
  CreateTopicsResponse message;
  message.throttle_time_ms = 100007;
  auto& topic = message.topics.emplace_back();
  topic.name = "name-2";
  topic.topic_id = Uuid{3, 1003};
  topic.error_code = ErrorCode::kInvalidFetchSize;
  topic.error_message = "error-message-5";
  topic.topic_config_error_code = ErrorCode::kNotLeaderOrFollower;
  topic.num_partitions = 700007;
  topic.replication_factor = 801;
  topic.configs.emplace();
  auto& config = topic.configs->emplace_back();
  config.name = "name-9";
  config.value = "value-10";
  config.read_only = true;
  config.config_source = 12;
  config.is_sensitive = true;
  ExpectGolden(message, 2, 4,
               "000186a70000000100066e616d652d320004000f6572726f722d6d6573736167652d35");
  ExpectGolden(
      message, 5, 6,
      "000186a702076e616d652d320004106572726f722d6d6573736167652d35000aae67032102076e616d65"
      "2d390976616c75652d3130010c0100010002000600");
  ExpectGolden(
      message, 7, 7,
      "000186a702076e616d652d32000000000000000300000000000003eb0004106572726f722d6d65737361"
      "67652d35000aae67032102076e616d652d390976616c75652d3130010c0100010002000600");
}

TEST(GoldenTest, DeleteTopicsRequest) {
  DeleteTopicsRequest message;
  auto& topic = message.topics.emplace_back();
  topic.name = "name-1";
  topic.topic_id = Uuid{2, 1002};
  message.topic_names = {"topic-name-3"};
  message.timeout_ms = 400007;
  ExpectGolden(message, 1, 3, "00000001000c746f7069632d6e616d652d3300061a87");
  ExpectGolden(message, 4, 5, "020d746f7069632d6e616d652d3300061a8700");
  ExpectGolden(message, 6, 6, "02076e616d652d31000000000000000200000000000003ea0000061a8700");
}

TEST(GoldenTest, DeleteTopicsResponse) {
  DeleteTopicsResponse message;
  message.throttle_time_ms = 100007;
  auto& response = message.responses.emplace_back();
  response.name = "name-2";
  response.topic_id = Uuid{3, 1003};
  response.error_code = ErrorCode::kInvalidFetchSize;
  response.error_message = "error-message-5";
  ExpectGolden(message, 1, 3, "000186a70000000100066e616d652d320004");
  ExpectGolden(message, 4, 4, "000186a702076e616d652d3200040000");
  ExpectGolden(message, 5, 5, "000186a702076e616d652d320004106572726f722d6d6573736167652d350000");
  ExpectGolden(
      message, 6, 6,
      "000186a702076e616d652d32000000000000000300000000000003eb0004106572726f722d6d65737361"
      "67652d350000");
}

TEST(GoldenTest, ProduceRequest) {
  ProduceRequest message;
  message.transactional_id = "transactional-id-1";
  message.acks = 201;
  message.timeout_ms = 300007;
  auto& topic = message.topic_data.emplace_back();
  topic.name = "name-4";
  topic.topic_id = Uuid{5, 1005};
  auto& partition = topic.partition_data.emplace_back();
  partition.index = 600007;
  partition.records = wire::RecordsView("records-7");
  ExpectGolden(
      message, 3, 8,
      "00127472616e73616374696f6e616c2d69642d3100c9000493e70000000100066e616d652d3400000001"
      "000927c7000000097265636f7264732d37");
  ExpectGolden(
      message, 9, 12,
      "137472616e73616374696f6e616c2d69642d3100c9000493e702076e616d652d3402000927c70a726563"
      "6f7264732d37000000");
  ExpectGolden(
      message, 13, 13,
      "137472616e73616374696f6e616c2d69642d3100c9000493e702000000000000000500000000000003ed"
      "02000927c70a7265636f7264732d37000000");
}

TEST(GoldenTest, ProduceResponse) {
  ProduceResponse message;
  auto& response = message.responses.emplace_back();
  response.name = "name-1";
  response.topic_id = Uuid{2, 1002};
  auto& partition_response = response.partition_responses.emplace_back();
  partition_response.index = 300007;
  partition_response.error_code = ErrorCode::kInvalidFetchSize;
  partition_response.base_offset = 50000000005;
  partition_response.log_append_time_ms = 60000000006;
  partition_response.log_start_offset = 70000000007;
  auto& record_error = partition_response.record_errors.emplace_back();
  record_error.batch_index = 800007;
  record_error.batch_index_error_message = "batch-index-error-message-9";
  partition_response.error_message = "error-message-10";
  partition_response.current_leader.leader_id = 1100007;
  partition_response.current_leader.leader_epoch = 1200007;
  message.throttle_time_ms = 1300007;
  auto& node_endpoint = message.node_endpoints.emplace_back();
  node_endpoint.node_id = 1400007;
  node_endpoint.host = "host-15";
  node_endpoint.port = 1600007;
  node_endpoint.rack = "rack-17";
  ExpectGolden(
      message, 3, 4,
      "0000000100066e616d652d3100000001000493e700040000000ba43b74050000000df84758060013d627");
  ExpectGolden(
      message, 5, 7,
      "0000000100066e616d652d3100000001000493e700040000000ba43b74050000000df847580600000010"
      "4c533c070013d627");
  ExpectGolden(
      message, 8, 8,
      "0000000100066e616d652d3100000001000493e700040000000ba43b74050000000df847580600000010"
      "4c533c0700000001000c3507001b62617463682d696e6465782d6572726f722d6d6573736167652d3900"
      "106572726f722d6d6573736167652d31300013d627");
  ExpectGolden(
      message, 9, 9,
      "02076e616d652d3102000493e700040000000ba43b74050000000df8475806000000104c533c0702000c"
      "35071c62617463682d696e6465782d6572726f722d6d6573736167652d3900116572726f722d6d657373"
      "6167652d313000000013d62700");
  ExpectGolden(
      message, 10, 12,
      "02076e616d652d3102000493e700040000000ba43b74050000000df8475806000000104c533c0702000c"
      "35071c62617463682d696e6465782d6572726f722d6d6573736167652d3900116572726f722d6d657373"
      "6167652d31300100090010c8e700124f8700000013d62701001a0200155cc708686f73742d313500186a"
      "07087261636b2d313700");
  ExpectGolden(
      message, 13, 13,
      "02000000000000000200000000000003ea02000493e700040000000ba43b74050000000df84758060000"
      "00104c533c0702000c35071c62617463682d696e6465782d6572726f722d6d6573736167652d39001165"
      "72726f722d6d6573736167652d31300100090010c8e700124f8700000013d62701001a0200155cc70868"
      "6f73742d313500186a07087261636b2d313700");
}

TEST(GoldenTest, FetchRequest) {
  FetchRequest message;
  message.cluster_id = "cluster-id-1";
  message.replica_id = 200007;
  message.replica_state.replica_id = 300007;
  message.replica_state.replica_epoch = 40000000004;
  message.max_wait_ms = 500007;
  message.min_bytes = 600007;
  message.max_bytes = 700007;
  message.isolation_level = 8;
  message.session_id = 900007;
  message.session_epoch = 1000007;
  auto& topic = message.topics.emplace_back();
  topic.topic = "topic-11";
  topic.topic_id = Uuid{12, 1012};
  auto& partition = topic.partitions.emplace_back();
  partition.partition = 1300007;
  partition.current_leader_epoch = 1400007;
  partition.fetch_offset = 150000000015;
  partition.last_fetched_epoch = 1600007;
  partition.log_start_offset = 170000000017;
  partition.partition_max_bytes = 1800007;
  partition.replica_directory_id = Uuid{19, 1019};
  partition.high_watermark = 200000000020;
  auto& forgotten_topics = message.forgotten_topics_data.emplace_back();
  forgotten_topics.topic = "topic-21";
  forgotten_topics.topic_id = Uuid{22, 1022};
  forgotten_topics.partitions = {2300007};
  message.rack_id = "rack-id-24";
  ExpectGolden(
      message, 4, 4,
      "00030d470007a127000927c7000aae6708000000010008746f7069632d3131000000010013d627000000"
      "22ecb25c0f001b7747");
  ExpectGolden(
      message, 5, 6,
      "00030d470007a127000927c7000aae6708000000010008746f7069632d3131000000010013d627000000"
      "22ecb25c0f0000002794ca2411001b7747");
  ExpectGolden(
      message, 7, 8,
      "00030d470007a127000927c7000aae6708000dbba7000f4247000000010008746f7069632d3131000000"
      "010013d62700000022ecb25c0f0000002794ca2411001b7747000000010008746f7069632d3231000000"
      "0100231867");
  ExpectGolden(
      message, 9, 10,
      "00030d470007a127000927c7000aae6708000dbba7000f4247000000010008746f7069632d3131000000"
      "010013d62700155cc700000022ecb25c0f0000002794ca2411001b7747000000010008746f7069632d32"
      "310000000100231867");
  ExpectGolden(
      message, 11, 11,
      "00030d470007a127000927c7000aae6708000dbba7000f4247000000010008746f7069632d3131000000"
      "010013d62700155cc700000022ecb25c0f0000002794ca2411001b7747000000010008746f7069632d32"
      "310000000100231867000a7261636b2d69642d3234");
  ExpectGolden(
      message, 12, 12,
      "00030d470007a127000927c7000aae6708000dbba7000f42470209746f7069632d3131020013d6270015"
      "5cc700000022ecb25c0f00186a070000002794ca2411001b774700000209746f7069632d323102002318"
      "67000b7261636b2d69642d323401000d0d636c75737465722d69642d31");
  ExpectGolden(
      message, 13, 14,
      "00030d470007a127000927c7000aae6708000dbba7000f424702000000000000000c00000000000003f4"
      "020013d62700155cc700000022ecb25c0f00186a070000002794ca2411001b7747000002000000000000"
      "001600000000000003fe0200231867000b7261636b2d69642d323401000d0d636c75737465722d69642d"
      "31");
  ExpectGolden(
      message, 15, 16,
      "0007a127000927c7000aae6708000dbba7000f424702000000000000000c00000000000003f4020013d6"
      "2700155cc700000022ecb25c0f00186a070000002794ca2411001b774700000200000000000000160000"
      "0000000003fe0200231867000b7261636b2d69642d323402000d0d636c75737465722d69642d31010d00"
      "0493e700000009502f900400");
  ExpectGolden(
      message, 17, 17,
      "0007a127000927c7000aae6708000dbba7000f424702000000000000000c00000000000003f4020013d6"
      "2700155cc700000022ecb25c0f00186a070000002794ca2411001b774701001000000000000000130000"
      "0000000003fb0002000000000000001600000000000003fe0200231867000b7261636b2d69642d323402"
      "000d0d636c75737465722d69642d31010d000493e700000009502f900400");
  ExpectGolden(
      message, 18, 18,
      "0007a127000927c7000aae6708000dbba7000f424702000000000000000c00000000000003f4020013d6"
      "2700155cc700000022ecb25c0f00186a070000002794ca2411001b774702001000000000000000130000"
      "0000000003fb01080000002e90edd0140002000000000000001600000000000003fe0200231867000b72"
      "61636b2d69642d323402000d0d636c75737465722d69642d31010d000493e700000009502f900400");
}

TEST(GoldenTest, FetchResponse) {
  FetchResponse message;
  message.throttle_time_ms = 100007;
  message.error_code = ErrorCode::kCorruptMessage;
  message.session_id = 300007;
  auto& response = message.responses.emplace_back();
  response.topic = "topic-4";
  response.topic_id = Uuid{5, 1005};
  auto& partition = response.partitions.emplace_back();
  partition.partition_index = 600007;
  partition.error_code = ErrorCode::kRequestTimedOut;
  partition.high_watermark = 80000000008;
  partition.last_stable_offset = 90000000009;
  partition.log_start_offset = 100000000010;
  partition.diverging_epoch.epoch = 1100007;
  partition.diverging_epoch.end_offset = 120000000012;
  partition.current_leader.leader_id = 1300007;
  partition.current_leader.leader_epoch = 1400007;
  partition.snapshot_id.end_offset = 150000000015;
  partition.snapshot_id.epoch = 1600007;
  partition.aborted_transactions.emplace();
  auto& aborted_transaction = partition.aborted_transactions->emplace_back();
  aborted_transaction.producer_id = 170000000017;
  aborted_transaction.first_offset = 180000000018;
  partition.preferred_read_replica = 1900007;
  partition.records = wire::RecordsView("records-20");
  auto& node_endpoint = message.node_endpoints.emplace_back();
  node_endpoint.node_id = 2100007;
  node_endpoint.host = "host-22";
  node_endpoint.port = 2300007;
  node_endpoint.rack = "rack-24";
  ExpectGolden(
      message, 4, 4,
      "000186a7000000010007746f7069632d3400000001000927c7000700000012a05f200800000014f46b04"
      "09000000010000002794ca241100000029e8d608120000000a7265636f7264732d3230");
  ExpectGolden(
      message, 5, 6,
      "000186a7000000010007746f7069632d3400000001000927c7000700000012a05f200800000014f46b04"
      "09000000174876e80a000000010000002794ca241100000029e8d608120000000a7265636f7264732d32"
      "30");
  ExpectGolden(
      message, 7, 10,
      "000186a70002000493e7000000010007746f7069632d3400000001000927c7000700000012a05f200800"
      "000014f46b0409000000174876e80a000000010000002794ca241100000029e8d608120000000a726563"
      "6f7264732d3230");
  ExpectGolden(
      message, 11, 11,
      "000186a70002000493e7000000010007746f7069632d3400000001000927c7000700000012a05f200800"
      "000014f46b0409000000174876e80a000000010000002794ca241100000029e8d60812001cfde7000000"
      "0a7265636f7264732d3230");
  ExpectGolden(
      message, 12, 12,
      "000186a70002000493e70208746f7069632d3402000927c7000700000012a05f200800000014f46b0409"
      "000000174876e80a020000002794ca241100000029e8d6081200001cfde70b7265636f7264732d323003"
      "000d0010c8e70000001bf08eb00c0001090013d62700155cc700020d00000022ecb25c0f00186a070000"
      "00");
  ExpectGolden(
      message, 13, 15,
      "000186a70002000493e702000000000000000500000000000003ed02000927c7000700000012a05f2008"
      "00000014f46b0409000000174876e80a020000002794ca241100000029e8d6081200001cfde70b726563"
      "6f7264732d323003000d0010c8e70000001bf08eb00c0001090013d62700155cc700020d00000022ecb2"
      "5c0f00186a07000000");
  ExpectGolden(
      message, 16, 18,
      "000186a70002000493e702000000000000000500000000000003ed02000927c7000700000012a05f2008"
      "00000014f46b0409000000174876e80a020000002794ca241100000029e8d6081200001cfde70b726563"
      "6f7264732d323003000d0010c8e70000001bf08eb00c0001090013d62700155cc700020d00000022ecb2"
      "5c0f00186a07000001001a0200200b2708686f73742d323200231867087261636b2d323400");
}

TEST(GoldenTest, ListOffsetsRequest) {
  ListOffsetsRequest message;
  message.replica_id = 100007;
  message.isolation_level = 2;
  auto& topic = message.topics.emplace_back();
  topic.name = "name-3";
  auto& partition = topic.partitions.emplace_back();
  partition.partition_index = 400007;
  partition.current_leader_epoch = 500007;
  partition.timestamp = 60000000006;
  message.timeout_ms = 700007;
  ExpectGolden(message, 1, 1, "000186a70000000100066e616d652d330000000100061a870000000df8475806");
  ExpectGolden(message, 2, 3, "000186a7020000000100066e616d652d330000000100061a870000000df8475806");
  ExpectGolden(message, 4, 5,
               "000186a7020000000100066e616d652d330000000100061a870007a1270000000df8475806");
  ExpectGolden(message, 6, 7, "000186a70202076e616d652d330200061a870007a1270000000df8475806000000");
}

TEST(GoldenTest, ListOffsetsResponse) {
  ListOffsetsResponse message;
  message.throttle_time_ms = 100007;
  auto& topic = message.topics.emplace_back();
  topic.name = "name-2";
  auto& partition = topic.partitions.emplace_back();
  partition.partition_index = 300007;
  partition.error_code = ErrorCode::kInvalidFetchSize;
  partition.timestamp = 50000000005;
  partition.offset = 60000000006;
  partition.leader_epoch = 700007;
  ExpectGolden(message, 1, 1,
               "0000000100066e616d652d3200000001000493e700040000000ba43b74050000000df8475806");
  ExpectGolden(
      message, 2, 3,
      "000186a70000000100066e616d652d3200000001000493e700040000000ba43b74050000000df8475806");
  ExpectGolden(
      message, 4, 5,
      "000186a70000000100066e616d652d3200000001000493e700040000000ba43b74050000000df8475806"
      "000aae67");
  ExpectGolden(
      message, 6, 7,
      "000186a702076e616d652d3202000493e700040000000ba43b74050000000df8475806000aae67000000");
}

TEST(GoldenTest, DescribeClusterRequest) {
  DescribeClusterRequest message;
  message.include_cluster_authorized_operations = true;
  message.endpoint_type = 2;
  message.include_fenced_brokers = true;
  ExpectGolden(message, 0, 0, "0100");
  ExpectGolden(message, 1, 1, "010200");
  ExpectGolden(message, 2, 2, "01020100");
}

TEST(GoldenTest, DescribeClusterResponse) {
  DescribeClusterResponse message;
  message.throttle_time_ms = 100007;
  message.error_code = ErrorCode::kCorruptMessage;
  message.error_message = "error-message-3";
  message.endpoint_type = 4;
  message.cluster_id = "cluster-id-5";
  message.controller_id = 600007;
  auto& broker = message.brokers.emplace_back();
  broker.broker_id = 700007;
  broker.host = "host-8";
  broker.port = 900007;
  broker.rack = "rack-10";
  broker.is_fenced = true;
  message.cluster_authorized_operations = 1200007;
  ExpectGolden(
      message, 0, 0,
      "000186a70002106572726f722d6d6573736167652d330d636c75737465722d69642d35000927c702000a"
      "ae6707686f73742d38000dbba7087261636b2d31300000124f8700");
  ExpectGolden(
      message, 1, 1,
      "000186a70002106572726f722d6d6573736167652d33040d636c75737465722d69642d35000927c70200"
      "0aae6707686f73742d38000dbba7087261636b2d31300000124f8700");
  ExpectGolden(
      message, 2, 2,
      "000186a70002106572726f722d6d6573736167652d33040d636c75737465722d69642d35000927c70200"
      "0aae6707686f73742d38000dbba7087261636b2d3130010000124f8700");
}

TEST(GoldenTest, FindCoordinatorRequest) {
  FindCoordinatorRequest message;
  message.key = "key-1";
  message.key_type = 2;
  message.coordinator_keys = {"coordinator-key-3"};
  ExpectGolden(message, 0, 0, "00056b65792d31");
  ExpectGolden(message, 1, 2, "00056b65792d3102");
  ExpectGolden(message, 3, 3, "066b65792d310200");
  ExpectGolden(message, 4, 5, "020212636f6f7264696e61746f722d6b65792d3300");
}

TEST(GoldenTest, FindCoordinatorResponse) {
  FindCoordinatorResponse message;
  message.throttle_time_ms = 100007;
  message.error_code = ErrorCode::kCorruptMessage;
  message.error_message = "error-message-3";
  message.node_id = 400007;
  message.host = "host-5";
  message.port = 600007;
  auto& coordinator = message.coordinators.emplace_back();
  coordinator.key = "key-7";
  coordinator.node_id = 800007;
  coordinator.host = "host-9";
  coordinator.port = 1000007;
  coordinator.error_code = ErrorCode::kStaleControllerEpoch;
  coordinator.error_message = "error-message-12";
  ExpectGolden(message, 0, 0, "000200061a870006686f73742d35000927c7");
  ExpectGolden(message, 1, 2,
               "000186a70002000f6572726f722d6d6573736167652d3300061a870006686f73742d35000927c7");
  ExpectGolden(message, 3, 3,
               "000186a70002106572726f722d6d6573736167652d3300061a8707686f73742d35000927c700");
  ExpectGolden(
      message, 4, 5,
      "000186a702066b65792d37000c350707686f73742d39000f4247000b116572726f722d6d657373616765"
      "2d31320000");
}

TEST(GoldenTest, RequestHeader) {
  RequestHeader message;
  message.request_api_key = 101;
  message.request_api_version = 201;
  message.correlation_id = 300007;
  message.client_id = "client-id-4";
  ExpectGolden(message, 1, 1, "006500c9000493e7000b636c69656e742d69642d34");
  ExpectGolden(message, 2, 2, "006500c9000493e7000b636c69656e742d69642d3400");
}

TEST(GoldenTest, ResponseHeader) {
  ResponseHeader message;
  message.correlation_id = 100007;
  ExpectGolden(message, 0, 0, "000186a7");
  ExpectGolden(message, 1, 1, "000186a700");
}
}  // namespace
}  // namespace gyre::proto
