#include "engine/broker/handlers/api_versions.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "engine/broker/features.h"
#include "engine/broker/metadata_cache.h"
#include "engine/broker/served_apis.h"
#include "proto/api_versions.h"

namespace gyre {

namespace {

void AddApi(const ServedApi& api, proto::ApiVersionsResponse& response) {
  response.api_keys.push_back({.api_key = static_cast<int16_t>(api.key),
                               .min_version = api.advertised_min,
                               .max_version = api.max_version});
}

bool IsWordCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

}  // namespace

bool IsValidClientSoftware(absl::string_view text) {
  if (text.empty() || !IsWordCharacter(text.front()) || !IsWordCharacter(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsWordCharacter(c) || c == '.' || c == '-'; });
}

void ReplyUnsupportedApiVersions(RequestContext context) {
  proto::ApiVersionsResponse response;
  response.error_code = ErrorCode::kUnsupportedVersion;
  AddApi(*FindServedApi(ApiKey::kApiVersions), response);
  context.ReplyAs(response, 0);
}

void HandleApiVersions(const BrokerServices& services, RequestContext context) {
  proto::ApiVersionsRequest request;
  if (!context.Decode(request)) return;
  proto::ApiVersionsResponse response;
  if (context.version() >= proto::ApiVersionsRequest::kFirstFlexibleVersion) {
    if (!IsValidClientSoftware(request.client_software_name) ||
        !IsValidClientSoftware(request.client_software_version)) {
      response.error_code = ErrorCode::kInvalidRequest;
      return context.Reply(response);
    }
    context.request()->SetClientSoftware(
        {std::string(request.client_software_name), std::string(request.client_software_version)});
  }
  for (const ServedApi& api : kServedApis) AddApi(api, response);
  for (const SupportedFeature& feature : kSupportedFeatures) {
    response.supported_features.push_back(
        {.name = feature.name, .min_version = feature.min_level, .max_version = feature.max_level});
  }
  const std::shared_ptr<const MetadataImage> image = services.metadata.Current();
  response.finalized_features_epoch = image->offset();
  for (const SupportedFeature& feature : kSupportedFeatures) {
    // A log that Kafka wrote may have agreed on more than is served here; what is
    // not supported must not be said, transaction.version above all.
    const auto it = image->features().find(feature.name);
    if (it == image->features().end()) continue;
    response.finalized_features.push_back(
        {.name = feature.name, .max_version_level = it->second, .min_version_level = it->second});
  }
  context.Reply(response);
}

}  // namespace gyre
