// What a request meets before any handler, and the handlers that know the
// cluster only: ApiVersions, Metadata, DescribeCluster, FindCoordinator.
#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/escaping.h"
#include "engine/broker/broker_lanes.h"
#include "engine/broker/handlers/api_versions.h"
#include "engine/broker/served_apis.h"
#include "gtest/gtest.h"
#include "proto/api_versions.h"
#include "proto/describe_cluster.h"
#include "proto/find_coordinator.h"
#include "proto/metadata.h"
#include "tests/unit/broker/broker_test_util.h"

namespace gyre {
namespace {

using ApisTest = BrokerTest;

std::string Header(int16_t key, int16_t version) {
  std::string bytes(10, '\0');
  wire::Writer writer(bytes.data(), bytes.size());
  writer.WriteInt16(key);
  writer.WriteInt16(version);
  writer.WriteInt32(Exchange::kCorrelationId);
  writer.WriteInt16(-1);
  return bytes;
}

TEST_F(ApisTest, UnknownApisAndVersionsAndShortFramesClose) {
  for (const std::string& frame :
       {Header(999, 0), Header(-1, 0), Header(11, 0), Header(0, 2), Header(0, 12), Header(1, 3),
        Header(1, 13), Header(3, -1), Header(3, 13), Header(22, 0), std::string(),
        Header(3, 1).substr(0, 7), Header(3, 9).substr(0, 8)}) {
    const auto exchange = SendFrame(frame);
    ASSERT_TRUE(exchange->answered()) << absl::BytesToHexString(frame);
    EXPECT_EQ(exchange->kind(), ResponseKind::kCloseConnection) << absl::BytesToHexString(frame);
  }
}

TEST_F(ApisTest, TheTableSaysLaneDispatchPipeliningAndKey) {
  const auto says = [this](absl::string_view frame) {
    ConnectionRequest request;
    request.Fill(nullptr, nullptr, nullptr, 0, 0, Buffer::CopyOf(frame), 0, 0);
    const RequestHandler& handler = broker->request_handler();
    return std::make_tuple(DefaultLanes()[static_cast<size_t>(handler.LaneOf(request))].name,
                           handler.RunsInline(request), handler.RunsAlone(request),
                           handler.ApiOf(request));
  };
  using Says = std::tuple<std::string, bool, bool, int>;
  EXPECT_EQ(says(Header(0, 9)), Says("produce", false, false, 0));
  EXPECT_EQ(says(Header(1, 9)), Says("fetch", false, true, 1));
  EXPECT_EQ(says(Header(2, 3)), Says("other", false, true, 2));
  EXPECT_EQ(says(Header(3, 9)), Says("control", false, true, 3));
  EXPECT_EQ(says(Header(18, 3)), Says("control", true, true, 18));
  EXPECT_EQ(says(Header(19, 3)), Says("other", false, true, 19));
  // What is only closed on needs no handler, and nothing may pass it.
  EXPECT_EQ(says(Header(999, 3)), Says("other", true, true, -1));
  EXPECT_EQ(says("short"), Says("other", true, true, -1));
}

TEST_F(ApisTest, ABodyThatEndsEarlyCloses) {
  for (const ServedApi& api : kServedApis) {
    if (api.key == ApiKey::kApiVersions) continue;
    const auto exchange = SendFrame(Header(static_cast<int16_t>(api.key), api.max_version));
    ASSERT_TRUE(exchange->answered());
    EXPECT_EQ(exchange->kind(), ResponseKind::kCloseConnection) << api.key;
  }
}

TEST_F(ApisTest, AnUnknownApiVersionsVersionIsAnsweredInVersionZero) {
  for (int16_t version : {5, 6, 32767, -1}) {
    const auto exchange = SendFrame(Header(18, version) + "whatever follows");
    ASSERT_TRUE(exchange->answered());
    EXPECT_EQ(absl::BytesToHexString(exchange->bytes()),
              "000000100000004d002300000001001200000004");
  }
}

TEST_F(ApisTest, ApiVersionsListsWhatIsServed) {
  for (int16_t version = 0; version <= 4; ++version) {
    proto::ApiVersionsRequest request;
    request.client_software_name = "librdkafka";
    request.client_software_version = "2.0.2";
    const auto response = Call(request, version);
    EXPECT_EQ(response.error_code, ErrorCode::kNone);
    ASSERT_EQ(response.api_keys.size(), std::size(kServedApis));
    EXPECT_EQ(response.api_keys[0].api_key, 0);
    EXPECT_EQ(response.api_keys[0].min_version, 0) << "librdkafka looks for Produce 0";
    EXPECT_EQ(response.api_keys[0].max_version, 11);
    for (const auto& api : response.api_keys) {
      EXPECT_NE(api.api_key, 11) << "groups are not served";
      EXPECT_NE(api.api_key, 22) << "producer ids are not served";
    }
  }
  EXPECT_EQ(session.software_name(), "librdkafka");
}

TEST_F(ApisTest, FeaturesAreToldFromVersionThreeOn) {
  proto::ApiVersionsRequest request;
  request.client_software_name = "a";
  request.client_software_version = "1";
  const auto response = Call(request, 3);
  ASSERT_EQ(response.finalized_features.size(), 1u);
  EXPECT_EQ(response.finalized_features[0].name, "metadata.version");
  EXPECT_EQ(response.finalized_features[0].max_version_level, 25);
  EXPECT_EQ(response.finalized_features[0].min_version_level, 25);
  EXPECT_GE(response.finalized_features_epoch, 0);
  for (const auto& feature : response.supported_features) {
    EXPECT_NE(feature.min_version, 0) << "old clients refuse a minimum of 0 in version 3";
    EXPECT_NE(feature.name, "transaction.version");
  }
}

TEST_F(ApisTest, AClientMustNameItsSoftwareProperly) {
  proto::ApiVersionsRequest request;
  request.client_software_name = "bad name";
  request.client_software_version = "1";
  const auto response = Call(request, 3);
  EXPECT_EQ(response.error_code, ErrorCode::kInvalidRequest);
  EXPECT_TRUE(IsValidClientSoftware("apache-kafka-java"));
  EXPECT_TRUE(IsValidClientSoftware("x"));
  EXPECT_TRUE(IsValidClientSoftware("2.0.2"));
  EXPECT_FALSE(IsValidClientSoftware(""));
  EXPECT_FALSE(IsValidClientSoftware("-x"));
  EXPECT_FALSE(IsValidClientSoftware("x."));
  EXPECT_FALSE(IsValidClientSoftware("a_b"));
}

TEST_F(ApisTest, MetadataNamesThisBrokerAsTheClientReachesIt) {
  listener.advertised_host = "10.1.2.3";
  listener.advertised_port = 1234;
  for (int16_t version = 0; version <= 12; ++version) {
    const auto response = Call(proto::MetadataRequest(), version);
    ASSERT_EQ(response.brokers.size(), 1u);
    EXPECT_EQ(response.brokers[0].node_id, 1);
    EXPECT_EQ(response.brokers[0].host, "10.1.2.3");
    EXPECT_EQ(response.brokers[0].port, 1234);
    if (version >= 1) EXPECT_EQ(response.controller_id, 1);
    if (version >= 2) EXPECT_EQ(response.cluster_id, broker->config().cluster_id);
  }
}

TEST_F(ApisTest, EmptyMeansAllInVersionZeroAndNothingLater) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  proto::MetadataRequest none;
  none.topics.emplace();
  EXPECT_EQ(Call(none, 0).topics.size(), 1u);
  EXPECT_EQ(Call(none, 1).topics.size(), 0u);
  EXPECT_EQ(Call(none, 12).topics.size(), 0u);
  proto::MetadataRequest all;
  all.topics.reset();
  EXPECT_EQ(Call(all, 1).topics.size(), 1u);
  EXPECT_EQ(Call(all, 12).topics.size(), 1u);
}

TEST_F(ApisTest, MetadataTellsPartitionsEpochsAndIds) {
  ASSERT_EQ(CreateTopic("t", 3), ErrorCode::kNone);
  proto::MetadataRequest request;
  request.topics->emplace_back().name = "t";
  const auto by_name = Call(request, 12);
  ASSERT_EQ(by_name.topics.size(), 1u);
  const auto& topic = by_name.topics[0];
  EXPECT_EQ(topic.error_code, ErrorCode::kNone);
  EXPECT_FALSE(topic.topic_id.is_zero());
  ASSERT_EQ(topic.partitions.size(), 3u);
  EXPECT_EQ(topic.partitions[2].partition_index, 2);
  EXPECT_EQ(topic.partitions[2].leader_id, 1);
  EXPECT_EQ(topic.partitions[2].leader_epoch, 0);
  EXPECT_EQ(topic.partitions[2].replica_nodes, std::vector<int32_t>{1});
  EXPECT_EQ(topic.partitions[2].isr_nodes, std::vector<int32_t>{1});
  EXPECT_TRUE(topic.partitions[2].offline_replicas.empty());
  request.topics->front() = {};
  request.topics->front().name.reset();
  request.topics->front().topic_id = topic.topic_id;
  const auto by_id = Call(request, 12);
  EXPECT_EQ(by_id.topics[0].name, "t");
  request.topics->front().topic_id = Uuid{1, 2};
  const auto unknown = Call(request, 12);
  EXPECT_EQ(unknown.topics[0].error_code, ErrorCode::kUnknownTopicId);
  EXPECT_FALSE(unknown.topics[0].name.has_value());
}

TEST_F(ApisTest, IdsInVersionsTenAndElevenAreRefused) {
  proto::MetadataRequest request;
  auto& topic = request.topics->emplace_back();
  topic.name = "t";
  topic.topic_id = Uuid{1, 2};
  EXPECT_EQ(Call(request, 10).topics.at(0).error_code, ErrorCode::kInvalidRequest);
  topic.topic_id = Uuid::kZero;
  topic.name.reset();
  EXPECT_EQ(Call(request, 11).topics.at(0).error_code, ErrorCode::kInvalidRequest);
}

TEST_F(ApisTest, AMissingTopicIsMadeWhenTheClientAndTheBrokerAllowIt) {
  proto::MetadataRequest request;
  request.topics->emplace_back().name = "wanted";
  request.allow_auto_topic_creation = false;
  EXPECT_EQ(Call(request, 4).topics.at(0).error_code, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(Call(request, 4).topics.at(0).error_code, ErrorCode::kUnknownTopicOrPartition);
  request.allow_auto_topic_creation = true;
  EXPECT_EQ(Call(request, 4).topics.at(0).error_code, ErrorCode::kUnknownTopicOrPartition);
  const auto made = Call(request, 4);
  EXPECT_EQ(made.topics.at(0).error_code, ErrorCode::kNone);
  EXPECT_EQ(made.topics.at(0).partitions.size(), 1u);
  request.topics->front().name = "bad name";
  EXPECT_EQ(Call(request, 4).topics.at(0).error_code, ErrorCode::kInvalidTopic);
}

TEST_F(ApisTest, NoTopicIsMadeWhenTheBrokerForbidsIt) {
  ASSERT_TRUE(Close().ok());
  options.config.auto_create_topics_enable = false;
  ASSERT_TRUE(Open().ok());
  proto::MetadataRequest request;
  request.topics->emplace_back().name = "wanted";
  Call(request, 1);
  EXPECT_EQ(Call(request, 1).topics.at(0).error_code, ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(ApisTest, TheMetadataLogIsNoTopicToClients) {
  proto::MetadataRequest request;
  request.topics->emplace_back().name = "__cluster_metadata";
  Call(request, 12);
  EXPECT_EQ(Call(request, 12).topics.at(0).error_code, ErrorCode::kUnknownTopicOrPartition);
  request.topics.reset();
  EXPECT_TRUE(Call(request, 12).topics.empty());
}

TEST_F(ApisTest, OperationsAreToldToWhoAsks) {
  ASSERT_EQ(CreateTopic("t"), ErrorCode::kNone);
  proto::MetadataRequest request;
  request.topics.reset();
  EXPECT_EQ(Call(request, 8).topics.at(0).topic_authorized_operations, INT32_MIN);
  request.include_topic_authorized_operations = true;
  request.include_cluster_authorized_operations = true;
  const auto response = Call(request, 8);
  EXPECT_EQ(response.topics.at(0).topic_authorized_operations, 3576);
  request.topics.emplace().emplace_back().name = "unknown";
  request.allow_auto_topic_creation = false;
  EXPECT_EQ(Call(request, 8).topics.at(0).topic_authorized_operations, 3576);
  EXPECT_EQ(response.cluster_authorized_operations, 8096);
}

TEST_F(ApisTest, DescribeClusterTellsTheBrokers) {
  for (int16_t version = 0; version <= 1; ++version) {
    const auto response = Call(proto::DescribeClusterRequest(), version);
    EXPECT_EQ(response.error_code, ErrorCode::kNone);
    EXPECT_EQ(response.cluster_id, broker->config().cluster_id);
    ASSERT_EQ(response.brokers.size(), 1u);
    EXPECT_EQ(response.brokers[0].host, "127.0.0.1");
  }
  proto::DescribeClusterRequest controllers;
  controllers.endpoint_type = 2;
  EXPECT_EQ(Call(controllers, 1).error_code, ErrorCode::kMismatchedEndpointType);
  EXPECT_EQ(Call(controllers, 1).endpoint_type, 1);
  controllers.endpoint_type = 3;
  EXPECT_EQ(Call(controllers, 1).error_code, ErrorCode::kUnsupportedEndpointType);
}

TEST_F(ApisTest, NoCoordinatorIsAvailable) {
  proto::FindCoordinatorRequest request;
  request.key = "group";
  for (int16_t version = 0; version <= 3; ++version) {
    const auto response = Call(request, version);
    EXPECT_EQ(response.error_code, ErrorCode::kCoordinatorNotAvailable);
    EXPECT_EQ(response.node_id, -1);
  }
  request.coordinator_keys = {"a", "b"};
  const auto response = Call(request, 4);
  ASSERT_EQ(response.coordinators.size(), 2u);
  EXPECT_EQ(response.coordinators[1].key, "b");
  EXPECT_EQ(response.coordinators[1].error_code, ErrorCode::kCoordinatorNotAvailable);
  request.key_type = 9;
  EXPECT_EQ(Call(request, 4).coordinators[0].error_code, ErrorCode::kInvalidRequest);
}

}  // namespace
}  // namespace gyre
