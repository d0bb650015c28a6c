// What a client knows of a Kafka cluster: the versions to speak, the brokers, and who
// leads the partitions of its topic.
//
// Threads: a value; each thread keeps its own.
#ifndef GYRE_TOOLS_LOAD_KAFKA_CLUSTER_H_
#define GYRE_TOOLS_LOAD_KAFKA_CLUSTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/network/endpoint.h"
#include "proto/api_versions.h"
#include "proto/metadata.h"
#include "proto/wire/api_key.h"
#include "tools/load/host_names.h"

namespace gyre::load {

inline constexpr absl::string_view kClientId = "gyre_load";

struct Cluster {
  std::map<ApiKey, int16_t> versions;  // of those that gyre_load uses and the broker has
  std::map<int32_t, SocketAddress> nodes;
  std::vector<int32_t> leaders;  // by partition; -1: nobody

  int16_t VersionOf(ApiKey key) const { return versions.at(key); }
  bool Offers(ApiKey key) const { return versions.contains(key); }
  // nullptr: no leader, or one that Metadata did not list.
  const SocketAddress* LeaderOf(int32_t partition) const;
};

// Picks the highest version that both know. UNIMPLEMENTED names an api that is missing
// and that a client cannot do without.
absl::Status ChooseVersions(const proto::ApiVersionsResponse& response, Cluster* cluster);

// Takes over the brokers, by addresses that `hosts` knows or finds meanwhile, and the
// leaders of `topic`. Never waits. UNAVAILABLE: ask again; NOT_FOUND: the topic is not there;
// else the broker's refusal.
absl::Status ApplyMetadata(const proto::MetadataResponse& response, absl::string_view topic,
                           HostNames& hosts, Cluster* cluster);

proto::MetadataRequest MakeMetadataRequest(absl::string_view topic);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_CLUSTER_H_
