// In which order one handler looks at the lanes of a request channel: deficit round
// robin (Shreedhar and Varghese), counted in requests. A lane's turn lasts for as
// many requests as its weight; what a long run took beyond that is owed. So a flood
// in one lane delays a request in another by one turn at most, and a lane that is
// alone has every turn.
//
// Each handler has its own, so that taking a run costs no shared state beside the
// lane's queue; over all handlers the shares are the same.
//
// Threads: owner (one handler).
#ifndef GYRE_ENGINE_NETWORK_REQUEST_LANE_SCHEDULER_H_
#define GYRE_ENGINE_NETWORK_REQUEST_LANE_SCHEDULER_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/network/request/request_run.h"
#include "engine/network/request_lane.h"

namespace gyre {

class LaneScheduler {
 public:
  // `take(lane)` is the lane's oldest run or null, `weight_of(lane)` >= 1. Null only
  // when every lane was seen empty.
  template <typename Take, typename WeightOf>
  RequestRun* Next(int lane_count, Take take, WeightOf weight_of) {
    bool owed = false;
    // The lane at hand comes up again, with a new turn, when the others are empty.
    for (int looked = 0; looked <= lane_count; ++looked) {
      if (credits_[lane_] > 0) {
        if (RequestRun* run = take(lane_)) {
          credits_[lane_] -= static_cast<int32_t>(run->count);
          return run;
        }
        credits_[lane_] = 0;  // an idle lane saves nothing up
      } else {
        owed = true;
      }
      if (++lane_ >= lane_count) lane_ = 0;
      credits_[lane_] += weight_of(lane_);
    }
    if (!owed) return nullptr;
    // Whatever is there belongs to lanes that owe: nobody waits for them.
    for (int looked = 0; looked < lane_count; ++looked) {
      if (RequestRun* run = take(lane_)) {
        credits_[lane_] = 0;
        return run;
      }
      if (++lane_ >= lane_count) lane_ = 0;
    }
    return nullptr;
  }

 private:
  int lane_ = 0;
  std::array<int32_t, kMaxLanes> credits_ = {};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_LANE_SCHEDULER_H_
