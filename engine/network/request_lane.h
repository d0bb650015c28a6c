// The lanes of a request channel, as options name them.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_LANE_H_
#define GYRE_ENGINE_NETWORK_REQUEST_LANE_H_

#include <cstdint>
#include <string>

namespace gyre {

inline constexpr int kMaxLanes = 8;
inline constexpr int32_t kMaxLaneWeight = 1000;

struct RequestLaneOptions {
  std::string name;
  // Its share of the handlers' turns, in requests.
  int32_t weight = 1;  // [1, kMaxLaneWeight]
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_LANE_H_
