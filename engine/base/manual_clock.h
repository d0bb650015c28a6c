// A clock that moves only when told to.
//
// Threads: any.
// Invariant: NowNs never goes back.
#ifndef GYRE_ENGINE_BASE_MANUAL_CLOCK_H_
#define GYRE_ENGINE_BASE_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"

namespace gyre {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t now_ns = 0, int64_t wall_time_ms = 1'700'000'000'000)
      : now_ns_(now_ns), wall_time_ms_(wall_time_ms) {}

  int64_t NowNs() const override { return now_ns_.load(std::memory_order_acquire); }
  int64_t WallTimeMs() const override { return wall_time_ms_.load(std::memory_order_acquire); }

  // Moves both times forward.
  void AdvanceMs(int64_t ms) {
    now_ns_.fetch_add(ms * 1'000'000, std::memory_order_acq_rel);
    wall_time_ms_.fetch_add(ms, std::memory_order_acq_rel);
  }
  void AdvanceNs(int64_t ns) { now_ns_.fetch_add(ns, std::memory_order_acq_rel); }
  // The wall time may step, also back.
  void SetWallTimeMs(int64_t ms) { wall_time_ms_.store(ms, std::memory_order_release); }

 private:
  std::atomic<int64_t> now_ns_;
  std::atomic<int64_t> wall_time_ms_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_MANUAL_CLOCK_H_
