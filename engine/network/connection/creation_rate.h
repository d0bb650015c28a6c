// A limit on how often something may be made: so many per second on average,
// with a burst of what `burst_ns` allow. One number holds the state (the generic
// cell rate algorithm, ITU-T I.371), so there may be one for every address.
//
// Kafka measures an average over quota.window.num samples and sleeps when it is
// above the limit; with the burst as long as its window the same creations pass,
// without the jump when a sample leaves the window.
//
// Threads: one at a time.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_CREATION_RATE_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_CREATION_RATE_H_

#include <algorithm>
#include <cstdint>

namespace gyre {

// Shared by all that obey it; may change at any time. What was used of the burst
// stays used in proportion.
struct RateLimit {
  static constexpr int32_t kUnlimited = INT32_MAX;

  int32_t per_second = kUnlimited;
  int64_t burst_ns = 10'000'000'000;

  bool limited() const { return per_second != kUnlimited; }
  int64_t interval_ns() const { return std::max<int64_t>(1, 1'000'000'000 / per_second); }
  // How far ahead of the clock the next creation may lie.
  int64_t tolerance_ns() const { return std::max<int64_t>(0, burst_ns - interval_ns()); }
};

class CreationRate {
 public:
  // How long until `ahead` + 1 more may be made; 0: now.
  int64_t DelayNs(const RateLimit& limit, int64_t now_ns, int64_t ahead = 0) const {
    if (!limit.limited()) return 0;
    const int64_t next_ns = std::max(now_ns, Bounded(limit, now_ns)) + ahead * limit.interval_ns();
    return std::max<int64_t>(0, next_ns - limit.tolerance_ns() - now_ns);
  }
  // How many may be made now.
  int64_t Available(const RateLimit& limit, int64_t now_ns) const {
    if (!limit.limited()) return INT32_MAX;
    const int64_t used_ns = std::max<int64_t>(0, Bounded(limit, now_ns) - now_ns);
    const int64_t left_ns = limit.tolerance_ns() - used_ns;
    return left_ns < 0 ? 0 : 1 + left_ns / limit.interval_ns();
  }
  void Record(const RateLimit& limit, int64_t now_ns) {
    if (!limit.limited()) return;
    theoretical_ns_ = std::max(now_ns, Bounded(limit, now_ns)) + limit.interval_ns();
  }
  // Nothing is used of the burst: the object says no more than a new one.
  bool idle(int64_t now_ns) const { return theoretical_ns_ <= now_ns; }

 private:
  // Under a limit with a longer interval, more than the whole burst was used.
  int64_t Bounded(const RateLimit& limit, int64_t now_ns) const {
    return std::min(theoretical_ns_, now_ns + limit.tolerance_ns() + limit.interval_ns());
  }

  int64_t theoretical_ns_ = 0;  // when the next would be due at an even pace
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_CREATION_RATE_H_
