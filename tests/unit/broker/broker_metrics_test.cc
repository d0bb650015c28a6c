// What a broker counts of its answers.
#include "engine/broker/broker_metrics.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/metrics/metric_registry.h"
#include "gtest/gtest.h"
#include "proto/fetch.h"
#include "proto/metadata.h"
#include "proto/produce.h"
#include "tests/unit/broker/broker_test_util.h"

namespace gyre {
namespace {

class BrokerMetricsTest : public BrokerTest {
 protected:
  void SetUp() override {
    BrokerTest::SetUp();
    ASSERT_EQ(CreateTopic("t", 2), ErrorCode::kNone);
    ASSERT_EQ(CreateTopic("small", 1, {{"max.message.bytes", "500"}}), ErrorCode::kNone);
    broker->AddMetrics(metrics_);
  }
  // The registry goes before the broker.
  void TearDown() override { Crash(); }

  int64_t Errors(const char* api, const char* error) const {
    return metrics_
        .Value("kafka_network_requestmetrics_errors_total",
               absl::StrCat("request=\"", api, "\",error=\"", error, "\""))
        .value_or(0);
  }
  int64_t Topics(const char* name) const {
    return metrics_.Value(absl::StrCat("kafka_server_brokertopicmetrics_", name, "_total"))
        .value_or(-1);
  }
  ErrorCode Fetch(absl::string_view topic, int64_t offset) {
    proto::FetchRequest request;
    request.max_bytes = 1 << 20;
    auto& from = request.topics.emplace_back();
    from.topic = topic;
    from.partitions.push_back({.fetch_offset = offset, .partition_max_bytes = 1 << 20});
    return Call(request, 11).responses.at(0).partitions.at(0).error_code;
  }

  MetricRegistry metrics_;
};

TEST_F(BrokerMetricsTest, RecordsAndBytesAreCountedOverAllTopics) {
  const std::string batch = MakeBatch("x", 3);
  const std::string large = MakeBatch("x", 1, 600);
  EXPECT_EQ(Produce("t", batch).error_code, ErrorCode::kNone);
  EXPECT_EQ(Produce("t", batch, 1).error_code, ErrorCode::kNone);
  EXPECT_EQ(Produce("small", large).error_code, ErrorCode::kMessageTooLarge);
  EXPECT_EQ(Produce("none", batch).error_code, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(Topics("messagesin"), 6);
  EXPECT_EQ(Topics("bytesin"), 2 * static_cast<int64_t>(batch.size()));
  EXPECT_EQ(Topics("bytesrejected"), static_cast<int64_t>(large.size()));
  EXPECT_EQ(Topics("totalproducerequests"), 4);
  EXPECT_EQ(Topics("failedproducerequests"), 2);
  EXPECT_EQ(Topics("totalfetchrequests"), 0);

  EXPECT_EQ(Fetch("t", 0), ErrorCode::kNone);
  EXPECT_EQ(Fetch("t", 3), ErrorCode::kNone);
  EXPECT_EQ(Fetch("t", 7), ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(Topics("bytesout"), 3 * static_cast<int64_t>(batch.size()));
  EXPECT_EQ(Topics("totalfetchrequests"), 3);
  EXPECT_EQ(Topics("failedfetchrequests"), 1);
}

TEST_F(BrokerMetricsTest, EachCodeOfAnAnswerIsCountedByApi) {
  Produce("t", MakeBatch("x"));
  Produce("none", MakeBatch("x"));
  EXPECT_EQ(Errors("Produce", "NONE"), 1);
  EXPECT_EQ(Errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION"), 1);
  // The whole answer's, and its partition's.
  Fetch("t", 9);
  EXPECT_EQ(Errors("Fetch", "NONE"), 1);
  EXPECT_EQ(Errors("Fetch", "OFFSET_OUT_OF_RANGE"), 1);
  EXPECT_EQ(CreateTopic("t"), ErrorCode::kTopicAlreadyExists);
  EXPECT_EQ(Errors("CreateTopics", "TOPIC_ALREADY_EXISTS"), 1);
  // The whole answer's, its topic's and the two partitions'.
  proto::MetadataRequest metadata;
  metadata.topics.emplace().emplace_back().name = absl::string_view("t");
  Call(metadata, 9);
  EXPECT_EQ(Errors("Metadata", "NONE"), 4);
  EXPECT_EQ(Errors("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"), 0);
}

TEST_F(BrokerMetricsTest, AnErrorThatNoAnswerTellsIsCountedToo) {
  const std::string batch = MakeBatch("x");
  EXPECT_EQ(Send(MakeProduce("none", batch, 0), 9)->kind(), ResponseKind::kCloseConnection);
  EXPECT_EQ(Errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION"), 1);
  // Nothing is said, so nothing is counted.
  EXPECT_EQ(Send(MakeProduce("t", batch, 0), 9)->kind(), ResponseKind::kNoOp);
  EXPECT_EQ(Errors("Produce", "NONE"), 0);
  EXPECT_EQ(Topics("messagesin"), 1);
}

TEST_F(BrokerMetricsTest, ASeriesIsThereFromItsFirstErrorOn) {
  constexpr char kName[] = "kafka_network_requestmetrics_errors_total{";
  EXPECT_EQ(metrics_.Exposition().find(kName), std::string::npos);
  Produce("t", MakeBatch("x"));
  EXPECT_NE(metrics_.Exposition().find(
                "kafka_network_requestmetrics_errors_total{request=\"Produce\",error=\"NONE\"} 1"),
            std::string::npos)
      << metrics_.Exposition();
}

TEST(ErrorMetricsTest, CodesThatAreNotListedShareASeries) {
  MetricRegistry registry;
  ErrorMetrics errors;
  errors.Count(ApiKey::kFetch, ErrorCode::kNone);  // nowhere
  errors.Register(registry);
  errors.Count(ApiKey::kFetch, static_cast<ErrorCode>(31'000));
  errors.Count(ApiKey::kFetch, static_cast<ErrorCode>(-2));
  errors.Count(ApiKey::kFetch, ErrorCode::kUnknownServerError);
  errors.Count(ApiKey::kFetch, ErrorCode::kControllerIdNotRegistered);
  const auto value = [&registry](const char* error) {
    return registry.Value("kafka_network_requestmetrics_errors_total",
                          absl::StrCat("request=\"Fetch\",error=\"", error, "\""));
  };
  EXPECT_EQ(value("UNKNOWN_ERROR_CODE"), 2);
  EXPECT_EQ(value("UNKNOWN_SERVER_ERROR"), 1);
  EXPECT_EQ(value("CONTROLLER_ID_NOT_REGISTERED"), 1);
  EXPECT_EQ(value("NONE"), std::nullopt);
}

}  // namespace
}  // namespace gyre
