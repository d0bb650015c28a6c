// What a handler thread is in at this moment, for whoever watches it from outside: one
// word, written once for each request, so that what is read belongs together.
//
// Threads: Begin… and End the handler; Read any.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_HANDLER_TURN_H_
#define GYRE_ENGINE_NETWORK_REQUEST_HANDLER_TURN_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/network/request_lane.h"

namespace gyre {

class HandlerTurn {
 public:
  // The lane of what is no request.
  static constexpr int kContinuation = 0xff;
  static_assert(kMaxLanes <= kContinuation);

  struct State {
    int64_t began_ms = 0;  // of the engine's clock
    int lane = 0;
    int16_t api = -1;  // as RequestHandler::ApiOf has it
  };

  void BeginRequest(int lane, int16_t api, int64_t now_ns) {
    const auto began_ms = static_cast<uint64_t>(now_ns / 1'000'000);
    word_.store(began_ms << 24 | static_cast<uint64_t>(lane) << 16 | static_cast<uint16_t>(api),
                std::memory_order_relaxed);
  }
  void BeginContinuation(int64_t now_ns) { BeginRequest(kContinuation, -1, now_ns); }
  // It waits for work, or looks for some.
  void End() { word_.store(kNone, std::memory_order_relaxed); }

  // None: the handler is in nothing. Ask the clock afterwards: nothing that begins in
  // between has lasted then.
  std::optional<State> Read() const {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    if (word == kNone) return std::nullopt;
    return State{.began_ms = static_cast<int64_t>(word >> 24),
                 .lane = static_cast<int>(word >> 16 & 0xff),
                 .api = static_cast<int16_t>(word & 0xffff)};
  }

 private:
  // 40 bits of milliseconds, 34 years, never are all ones.
  static constexpr uint64_t kNone = UINT64_MAX;

  std::atomic<uint64_t> word_{kNone};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_HANDLER_TURN_H_
