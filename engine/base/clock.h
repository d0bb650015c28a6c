// Time, as a thing that is passed in, so that tests and the simulation own it.
//
// Threads: any.
#ifndef GYRE_ENGINE_BASE_CLOCK_H_
#define GYRE_ENGINE_BASE_CLOCK_H_

#include <cstdint>

namespace gyre {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds from an arbitrary origin.
  virtual int64_t NowNs() const = 0;
  // Milliseconds since the Unix epoch; may step.
  virtual int64_t WallTimeMs() const = 0;

  int64_t NowMs() const { return NowNs() / 1'000'000; }

  // CLOCK_MONOTONIC and CLOCK_REALTIME; lives as long as the process.
  static const Clock& Real();
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_CLOCK_H_
