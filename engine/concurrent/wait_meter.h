// How long a ring's owner has waited for something to do. The wait of a ring also runs
// the kernel's side of its operations; what CPU time that takes is sampled, one wait in
// kSampleEvery, and not counted as idle. Costs two stores a wait; the times are those the
// thread's loop has read already.
//
// Threads: Begin, End and OnWoken the owner; IdleNs any.
#ifndef GYRE_ENGINE_CONCURRENT_WAIT_METER_H_
#define GYRE_ENGINE_CONCURRENT_WAIT_METER_H_

#include <time.h>

#include <cstdint>

#include "engine/base/time_share.h"

namespace gyre {

class WaitMeter {
 public:
  // Right before and right after the wait.
  void Begin(int64_t now_ns) {
    idle_.Begin(now_ns);
    sampled_ = wait_count_++ % kSampleEvery == 0;
    if (sampled_) [[unlikely]]
      sample_begin_ns_ = ThreadCpuNs();
  }
  void End() {
    if (!sampled_) [[likely]]
      return;
    const int64_t busy_ns = ThreadCpuNs() - sample_begin_ns_;
    busy_per_wait_ns_ += (busy_ns - busy_per_wait_ns_) / 4;
  }
  // At the turn that follows, with its time.
  void OnWoken(int64_t now_ns) { idle_.End(now_ns, busy_per_wait_ns_); }

  int64_t IdleNs(int64_t now_ns) const { return idle_.TotalNs(now_ns); }

 private:
  static constexpr uint32_t kSampleEvery = 32;

  static int64_t ThreadCpuNs() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  TimeShare idle_;
  uint32_t wait_count_ = 0;
  bool sampled_ = false;
  int64_t sample_begin_ns_ = 0;
  int64_t busy_per_wait_ns_ = 0;  // an average over the last few samples
};

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_WAIT_METER_H_
