#include "proto/frame.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/api_versions.h"
#include "proto/fetch.h"
#include "proto/metadata.h"
#include "tests/unit/proto/hex.h"

namespace gyre::proto {
namespace {

template <typename Request>
std::string RequestFrame(const Request& request, absl::string_view client_id, int32_t correlation,
                         int16_t version) {
  std::string bytes(RequestSize(request, client_id, version), '\0');
  wire::Writer writer(bytes.data(), bytes.size());
  EncodeRequest(writer, request, client_id, correlation, version);
  EXPECT_EQ(writer.size(), bytes.size());
  return ToHex(bytes);
}

template <typename Response>
std::string ResponseFrame(const Response& response, int32_t correlation, int16_t version) {
  std::string bytes(ResponseSize(response, version), '\0');
  wire::Writer writer(bytes.data(), bytes.size());
  EncodeResponse(writer, response, correlation, version);
  EXPECT_EQ(writer.size(), bytes.size());
  return ToHex(bytes);
}

std::string Joined(absl::string_view hex) { return ToHex(FromHex(hex)); }

TEST(FrameTest, FlexibleRequestKeepsTheClassicClientId) {
  ApiVersionsRequest request;
  request.client_software_name = "x";
  request.client_software_version = "1";
  EXPECT_EQ(RequestFrame(request, "c", 1, 3),
            Joined("00000011 0012 0003 00000001 0001 63 00 02 78 02 31 00"));
}

TEST(FrameTest, ApiVersionsResponseHasHeaderZeroAlways) {
  ApiVersionsResponse response;
  auto& api = response.api_keys.emplace_back();
  api.api_key = 18;
  api.max_version = 4;
  response.finalized_features_epoch = 5;
  auto& feature = response.finalized_features.emplace_back();
  feature.name = "metadata.version";
  feature.max_version_level = 25;
  feature.min_version_level = 25;
  EXPECT_EQ(ResponseFrame(response, 1, 3),
            Joined("00000036 00000001 0000 02 0012 0000 0004 00 00000000 02 01 08 0000000000000005"
                   "02 17 02 11 6d657461646174612e76657273696f6e 0019 0019 00"));
}

TEST(FrameTest, AnswerToAnUnknownApiVersionsVersion) {
  ApiVersionsResponse response;
  response.error_code = ErrorCode::kUnsupportedVersion;
  auto& api = response.api_keys.emplace_back();
  api.api_key = 18;
  api.max_version = 4;
  EXPECT_EQ(ResponseFrame(response, 1, 0),
            Joined("00000010 00000001 0023 00000001 0012 0000 0004"));
}

TEST(FrameTest, MetadataRequests) {
  MetadataRequest all;
  all.topics.reset();
  EXPECT_EQ(RequestFrame(all, "c", 2, 12),
            Joined("00000010 0003 000c 00000002 0001 63 00 00 01 00 00"));
  MetadataRequest one;
  one.topics->emplace_back().name = "t";
  EXPECT_EQ(RequestFrame(one, "", 2, 1),
            Joined("00000011 0003 0001 00000002 0000 00000001 0001 74"));
}

TEST(FrameTest, RequestHeaderIsReadInTheVersionOfItsApi) {
  const std::string classic = FromHex("0003 0001 00000002 ffff 77");
  wire::Reader reader(classic);
  RequestHeader header;
  ASSERT_TRUE(DecodeRequestHeader(reader, header));
  EXPECT_EQ(header.request_api_key, 3);
  EXPECT_EQ(header.request_api_version, 1);
  EXPECT_EQ(header.correlation_id, 2);
  EXPECT_EQ(header.client_id, std::nullopt);
  EXPECT_EQ(reader.remaining(), 1u);

  const std::string flexible = FromHex("0003 000c 00000002 0001 63 00 77");
  wire::Reader again(flexible);
  RequestHeader second;
  ASSERT_TRUE(DecodeRequestHeader(again, second));
  EXPECT_EQ(second.client_id, "c");
  EXPECT_EQ(again.remaining(), 1u);
}

TEST(FrameTest, CutRequestHeaderIsRefused) {
  const std::string bytes = FromHex("0003 000c 00000002 0001 63 00");
  for (size_t size = 0; size < bytes.size(); ++size) {
    wire::Reader reader(absl::string_view(bytes).substr(0, size));
    RequestHeader header;
    EXPECT_FALSE(DecodeRequestHeader(reader, header)) << size;
  }
}

TEST(FrameTest, SizePrefixCountsExternalRecords) {
  FetchResponse response;
  auto& topic = response.responses.emplace_back();
  topic.topic = "t";
  topic.partitions.emplace_back().records = wire::RecordsView::External(1000);
  topic.partitions.emplace_back().records = wire::RecordsView("abc");
  for (int16_t version : {4, 11, 12, 16}) {
    std::string bytes(ResponseSize(response, version), '\0');
    wire::Writer writer(bytes.data(), bytes.size());
    EncodeResponse(writer, response, 7, version);
    ASSERT_EQ(writer.size(), bytes.size());
    ASSERT_EQ(writer.holes().size(), 1u);

    // The reply as it goes out: buffer, slice, buffer.
    std::string sent = bytes;
    sent.insert(writer.holes()[0].position, std::string(1000, 'r'));
    wire::Reader reader(sent);
    EXPECT_EQ(reader.ReadInt32(), static_cast<int32_t>(sent.size() - 4));
    ResponseHeader header;
    ASSERT_TRUE(DecodeResponseHeader(reader, ApiKey::kFetch, version, header));
    EXPECT_EQ(header.correlation_id, 7);
    FetchResponse decoded;
    ASSERT_TRUE(decoded.Decode(reader, version));
    EXPECT_EQ(reader.remaining(), 0u);
    ASSERT_EQ(decoded.responses[0].partitions.size(), 2u);
    EXPECT_EQ(decoded.responses[0].partitions[0].records.bytes(), std::string(1000, 'r'));
    EXPECT_EQ(decoded.responses[0].partitions[1].records.bytes(), "abc");
  }
}

TEST(ApiInfoTest, HeaderVersionsFollowFlexibility) {
  EXPECT_EQ(RequestHeaderVersion(ApiKey::kMetadata, 8), 1);
  EXPECT_EQ(RequestHeaderVersion(ApiKey::kMetadata, 9), 2);
  EXPECT_EQ(ResponseHeaderVersion(ApiKey::kMetadata, 8), 0);
  EXPECT_EQ(ResponseHeaderVersion(ApiKey::kMetadata, 9), 1);
  EXPECT_EQ(RequestHeaderVersion(ApiKey::kSaslHandshake, 1), 1);
  // A version that is still unknown is flexible, so that it can be refused in style.
  EXPECT_EQ(RequestHeaderVersion(ApiKey::kApiVersions, 99), 2);
  EXPECT_EQ(ResponseHeaderVersion(ApiKey::kApiVersions, 4), 0);
}

TEST(ApiInfoTest, RemovedAndUnlistedApisAreNotFound) {
  ASSERT_NE(FindApi(ApiKey::kProduce), nullptr);
  EXPECT_EQ(FindApi(ApiKey::kProduce)->min_version, 3);
  EXPECT_EQ(FindApi(ApiKey::kLeaderAndIsr), nullptr);
  EXPECT_EQ(FindApi(static_cast<ApiKey>(-1)), nullptr);
  EXPECT_EQ(FindApi(static_cast<ApiKey>(kApiKeyCount)), nullptr);
}

TEST(ApiInfoTest, TableIsOrderedByNumberAndAgreesWithTheNames) {
  int16_t number = 0;
  for (const ApiInfo& api : AllApis()) {
    EXPECT_EQ(static_cast<int16_t>(api.key), number++);
    EXPECT_NE(ApiKeyName(api.key), "Unknown");
    if (!api.removed) {
      EXPECT_LE(api.min_version, api.max_version);
    }
  }
  EXPECT_EQ(ApiKeyName(ApiKey::kDescribeCluster), "DescribeCluster");
  EXPECT_EQ(ApiKeyName(static_cast<ApiKey>(999)), "Unknown");
}

TEST(ErrorCodeTest, NamesAndRetriability) {
  EXPECT_EQ(ErrorCodeName(ErrorCode::kNone), "NONE");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kUnknownServerError), "UNKNOWN_SERVER_ERROR");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kControllerIdNotRegistered), "CONTROLLER_ID_NOT_REGISTERED");
  EXPECT_EQ(ErrorCodeName(static_cast<ErrorCode>(4242)), "UNKNOWN_ERROR_CODE");
  EXPECT_TRUE(IsRetriable(ErrorCode::kNotLeaderOrFollower));
  EXPECT_FALSE(IsRetriable(ErrorCode::kTopicAlreadyExists));
  EXPECT_FALSE(IsRetriable(static_cast<ErrorCode>(-2)));
}

}  // namespace
}  // namespace gyre::proto
