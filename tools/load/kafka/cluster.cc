#include "tools/load/kafka/cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "proto/wire/error_code.h"

namespace gyre::load {
namespace {

// A partition number beyond this is a broker's mistake, not a topic.
constexpr int32_t kMaxPartitions = 1'000'000;

struct Spoken {
  ApiKey key;
  int16_t min_version;
  int16_t max_version;
  bool required;
};
// Produce 13 and Fetch 13 go by topic ids, Produce 12 means transactions of the second
// kind: nothing that a generator needs.
constexpr Spoken kSpoken[] = {
    {ApiKey::kProduce, 3, 9, true},       {ApiKey::kFetch, 4, 12, true},
    {ApiKey::kListOffsets, 1, 6, true},   {ApiKey::kMetadata, 4, 12, true},
    {ApiKey::kCreateTopics, 2, 7, false}, {ApiKey::kInitProducerId, 0, 4, false},
};

}  // namespace

const SocketAddress* Cluster::LeaderOf(int32_t partition) const {
  if (static_cast<size_t>(partition) >= leaders.size()) return nullptr;
  const auto node = nodes.find(leaders[static_cast<size_t>(partition)]);
  return node == nodes.end() ? nullptr : &node->second;
}

absl::Status ChooseVersions(const proto::ApiVersionsResponse& response, Cluster* cluster) {
  cluster->versions.clear();
  for (const Spoken& spoken : kSpoken) {
    for (const auto& offered : response.api_keys) {
      if (offered.api_key != static_cast<int16_t>(spoken.key)) continue;
      const int16_t version = std::min(offered.max_version, spoken.max_version);
      if (version >= std::max(offered.min_version, spoken.min_version)) {
        cluster->versions[spoken.key] = version;
      }
    }
    if (spoken.required && !cluster->Offers(spoken.key)) {
      return absl::UnimplementedError(absl::StrCat("the broker offers no ", ApiKeyName(spoken.key),
                                                   " version within ", spoken.min_version, "-",
                                                   spoken.max_version));
    }
  }
  return absl::OkStatus();
}

proto::MetadataRequest MakeMetadataRequest(absl::string_view topic) {
  proto::MetadataRequest request;
  request.topics->emplace_back().name = topic;
  request.allow_auto_topic_creation = false;
  return request;
}

absl::Status ApplyMetadata(const proto::MetadataResponse& response, absl::string_view topic,
                           HostNames& hosts, Cluster* cluster) {
  absl::Status unknown;
  for (const auto& broker : response.brokers) {
    if (broker.port < 1 || broker.port > 65535) continue;
    const absl::StatusOr<SocketAddress> address =
        hosts.Find(std::string(broker.host), static_cast<uint16_t>(broker.port));
    if (address.ok()) {
      cluster->nodes[broker.node_id] = *address;
    } else if (unknown.ok()) {
      unknown = Annotate(address.status(), absl::StrCat("the broker sends clients to ", broker.host,
                                                        ":", broker.port));
    }
  }
  GYRE_RETURN_IF_ERROR(unknown);
  for (const auto& found : response.topics) {
    if (found.name != topic) continue;
    if (found.error_code == ErrorCode::kUnknownTopicOrPartition) {
      return absl::NotFoundError(absl::StrCat("topic ", topic, " is not there"));
    }
    if (found.error_code != ErrorCode::kNone) {
      const std::string message =
          absl::StrCat("topic ", topic, ": ", ErrorCodeName(found.error_code));
      return IsRetriable(found.error_code) ? absl::UnavailableError(message)
                                           : absl::FailedPreconditionError(message);
    }
    std::vector<int32_t> leaders(found.partitions.size(), -1);
    for (const auto& partition : found.partitions) {
      const int32_t index = partition.partition_index;
      if (index < 0 || static_cast<size_t>(index) >= leaders.size() || index >= kMaxPartitions) {
        return absl::DataLossError(absl::StrCat("topic ", topic, ": partition ", index, " of ",
                                                leaders.size(), " in the broker's answer"));
      }
      leaders[static_cast<size_t>(index)] = partition.leader_id;
    }
    cluster->leaders = std::move(leaders);
    for (size_t i = 0; i < cluster->leaders.size(); ++i) {
      if (cluster->LeaderOf(static_cast<int32_t>(i)) == nullptr) {
        return absl::UnavailableError(
            absl::StrCat("topic ", topic, ": no leader for partition ", i));
      }
    }
    if (cluster->leaders.empty()) {
      return absl::UnavailableError(absl::StrCat("topic ", topic, " has no partitions"));
    }
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("topic ", topic, " is not in the broker's answer"));
}

}  // namespace gyre::load
