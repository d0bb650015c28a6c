// The lanes of a request channel, as options name them.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_LANE_H_
#define GYRE_ENGINE_NETWORK_REQUEST_LANE_H_

#include <cstdint>
#include <string>

namespace gyre {

inline constexpr int kMaxLanes = 8;

struct RequestLaneOptions {
  std::string name;
  // Its share of the handlers' turns, in requests; at least 1.
  int32_t weight = 1;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_LANE_H_
