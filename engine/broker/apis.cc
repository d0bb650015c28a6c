#include "engine/broker/apis.h"

#include "engine/broker/broker_metrics.h"
#include "engine/broker/handlers/api_versions.h"
#include "engine/broker/handlers/create_topics.h"
#include "engine/broker/handlers/delete_topics.h"
#include "engine/broker/handlers/describe_cluster.h"
#include "engine/broker/handlers/fetch.h"
#include "engine/broker/handlers/find_coordinator.h"
#include "engine/broker/handlers/list_offsets.h"
#include "engine/broker/handlers/metadata.h"
#include "engine/broker/handlers/produce.h"
#include "engine/broker/served_apis.h"
#include "glog/logging.h"

namespace gyre {

namespace {

// An api key, a version and a correlation id: what even an unknown version has.
constexpr size_t kFixedHeaderBytes = 8;

// Leads to exactly one answer, now or later.
using ApiHandler = void (*)(const BrokerServices& services, RequestContext context);

// Precondition: the api is served.
ApiHandler HandlerOf(ApiKey key) {
  switch (key) {
    case ApiKey::kProduce:
      return HandleProduce;
    case ApiKey::kFetch:
      return HandleFetch;
    case ApiKey::kListOffsets:
      return HandleListOffsets;
    case ApiKey::kMetadata:
      return HandleMetadata;
    case ApiKey::kFindCoordinator:
      return HandleFindCoordinator;
    case ApiKey::kApiVersions:
      return HandleApiVersions;
    case ApiKey::kCreateTopics:
      return HandleCreateTopics;
    case ApiKey::kDeleteTopics:
      return HandleDeleteTopics;
    case ApiKey::kDescribeCluster:
      return HandleDescribeCluster;
    default:
      LOG(FATAL) << "an api is served that has no handler: " << key;
  }
}

// Null when nothing served begins like that.
const ServedApi* ServedApiOf(const Request& request) {
  const absl::string_view frame = request.frame();
  if (frame.size() < kFixedHeaderBytes) return nullptr;
  return FindServedApi(static_cast<ApiKey>(wire::Reader(frame).ReadInt16()));
}

}  // namespace

bool ApiRequestHandler::RunsInline(const Request& request) const {
  const ServedApi* api = ServedApiOf(request);
  return api == nullptr || api->runs_inline;
}

int ApiRequestHandler::LaneOf(const Request& request) const {
  const ServedApi* api = ServedApiOf(request);
  return static_cast<int>(api == nullptr ? BrokerLane::kOther : api->lane);
}

int16_t ApiRequestHandler::ApiOf(const Request& request) const {
  const ServedApi* api = ServedApiOf(request);
  return api == nullptr ? int16_t{-1} : static_cast<int16_t>(api->key);
}

bool ApiRequestHandler::RunsAlone(const Request& request) const {
  const ServedApi* api = ServedApiOf(request);
  return api == nullptr || api->pipelining == Pipelining::kAlone;
}

void ApiRequestHandler::Start(RequestPtr request) {
  const absl::string_view frame = request->frame();
  if (frame.size() < kFixedHeaderBytes) {
    return request.CloseConnection("frame is shorter than a request header");
  }
  wire::Reader prefix(frame);
  const int16_t key = prefix.ReadInt16();
  const int16_t version = prefix.ReadInt16();
  const int32_t correlation_id = prefix.ReadInt32();
  const ServedApi* api = FindServedApi(static_cast<ApiKey>(key));
  if (api == nullptr) return request.CloseConnection("api is not served");
  request->api = key;
  request->api_version = version;
  if (version < api->min_version || version > api->max_version) {
    if (api->key != ApiKey::kApiVersions) {
      return request.CloseConnection("api version is not served");
    }
    return ReplyUnsupportedApiVersions(RequestContext(std::move(request), &allocator_,
                                                      &services_.metrics.errors, api->key, version,
                                                      correlation_id, "", ""));
  }
  wire::Reader reader(frame);
  proto::RequestHeader header;
  if (!proto::DecodeRequestHeader(reader, header)) {
    return request.CloseConnection("malformed request header");
  }
  request->client_id.Set(header.client_id.value_or(""));
  HandlerOf(api->key)(
      services_, RequestContext(std::move(request), &allocator_, &services_.metrics.errors,
                                api->key, version, correlation_id, header.client_id.value_or(""),
                                reader.ReadRaw(reader.remaining())));
}

}  // namespace gyre
