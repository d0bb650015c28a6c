#include "engine/base/clock.h"

#include <time.h>

namespace gyre {
namespace {

int64_t ReadNs(clockid_t id) {
  timespec now;
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class RealClock final : public Clock {
 public:
  int64_t NowNs() const override { return ReadNs(CLOCK_MONOTONIC); }
  int64_t WallTimeMs() const override { return ReadNs(CLOCK_REALTIME) / 1'000'000; }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace gyre
