// Which requests are served, in which versions. ApiVersions tells clients this
// table; the ApiRequestHandler refuses what is not in it.
//
// Threads: immutable.
#ifndef GYRE_ENGINE_BROKER_SERVED_APIS_H_
#define GYRE_ENGINE_BROKER_SERVED_APIS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "engine/broker/broker_lanes.h"
#include "proto/wire/api_key.h"

namespace gyre {

// How a request meets others of its connection where several may be in flight.
enum class Pipelining : uint8_t {
  // Before the next request is started those before it are answered, and it is
  // answered itself: as Kafka does with every request.
  kAlone,
  // It may be in flight beside others of its kind: they start in order, and nothing
  // that a client can see depends on more than that.
  kBesideOthers,
};

struct ServedApi {
  ApiKey key;
  // What ApiVersions says. Produce says 0 although 3 is the first one served:
  // librdkafka before 2.11 looks for exactly Produce 0 before it compresses.
  int16_t advertised_min;
  int16_t min_version;
  int16_t max_version;
  BrokerLane lane = BrokerLane::kOther;
  Pipelining pipelining = Pipelining::kAlone;
  // Its handler neither blocks nor touches a file: --dispatch=inline runs it on the
  // processor.
  bool runs_inline = false;
};

// Sorted by key.
inline constexpr ServedApi kServedApis[] = {
    {ApiKey::kProduce, 0, 3, 11, BrokerLane::kProduce, Pipelining::kBesideOthers},
    {ApiKey::kFetch, 4, 4, 12, BrokerLane::kFetch},
    {ApiKey::kListOffsets, 1, 1, 6},
    {ApiKey::kMetadata, 0, 0, 12, BrokerLane::kControl},
    {ApiKey::kFindCoordinator, 0, 0, 4, BrokerLane::kControl, Pipelining::kAlone, true},
    {ApiKey::kApiVersions, 0, 0, 4, BrokerLane::kControl, Pipelining::kAlone, true},
    {ApiKey::kCreateTopics, 2, 2, 7},
    {ApiKey::kDeleteTopics, 1, 1, 6},
    {ApiKey::kDescribeCluster, 0, 0, 1, BrokerLane::kControl, Pipelining::kAlone, true},
};

// Null when it is not served.
constexpr const ServedApi* FindServedApi(ApiKey key) {
  for (const ServedApi& api : kServedApis) {
    if (api.key == key) return &api;
  }
  return nullptr;
}

static_assert(std::is_sorted(std::begin(kServedApis), std::end(kServedApis),
                             [](const ServedApi& a, const ServedApi& b) { return a.key < b.key; }));
static_assert(FindServedApi(ApiKey::kJoinGroup) == nullptr);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_SERVED_APIS_H_
