// The lanes in which a broker's requests wait for handlers, so that a flood of one
// kind delays the others by a turn and not by its queue.
//
// Threads: immutable.
#ifndef GYRE_ENGINE_BROKER_BROKER_LANES_H_
#define GYRE_ENGINE_BROKER_BROKER_LANES_H_

#include <cstdint>
#include <vector>

#include "engine/network/request_lane.h"

namespace gyre {

// Indices of DefaultLanes().
enum class BrokerLane : uint8_t {
  kOther = 0,  // administration, offset look-ups
  kControl,    // what clients need to find their way: small, quick, and awaited
  kProduce,
  kFetch,
};

inline std::vector<RequestLaneOptions> DefaultLanes() {
  return {{"other", 2}, {"control", 8}, {"produce", 4}, {"fetch", 4}};
}

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_BROKER_LANES_H_
