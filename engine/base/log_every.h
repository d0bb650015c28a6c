// Bounds how many lines one cause may log: at most `lines` per interval, and
// the next line that passes says how many were held back.
//
//   if (uint64_t suppressed; refused_log_.TryTake(now_ns, &suppressed)) {
//     LOG(WARNING) << "…" << " (" << suppressed << " similar lines held back)";
//   }
//
// Threads: any; lock-free. Under contention at the edge of an interval a few
// lines more than `lines` may pass.
#ifndef GYRE_ENGINE_BASE_LOG_EVERY_H_
#define GYRE_ENGINE_BASE_LOG_EVERY_H_

#include <atomic>
#include <cstdint>

namespace gyre {

class LogEvery {
 public:
  explicit constexpr LogEvery(int64_t lines = 5, int64_t interval_ns = 10'000'000'000)
      : lines_(lines), interval_ns_(interval_ns) {}

  // True when the caller may log a line now. `*suppressed` is the number of
  // refusals since the last true.
  bool TryTake(int64_t now_ns, uint64_t* suppressed) {
    int64_t start_ns = interval_start_ns_.load(std::memory_order_relaxed);
    if (start_ns == kNeverStarted || now_ns - start_ns >= interval_ns_) {
      if (interval_start_ns_.compare_exchange_strong(start_ns, now_ns, std::memory_order_relaxed)) {
        taken_.store(0, std::memory_order_relaxed);
      }
    }
    if (taken_.fetch_add(1, std::memory_order_relaxed) < lines_) {
      *suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
      return true;
    }
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

 private:
  static constexpr int64_t kNeverStarted = INT64_MIN;

  const int64_t lines_;
  const int64_t interval_ns_;
  std::atomic<int64_t> interval_start_ns_{kNeverStarted};
  std::atomic<int64_t> taken_{0};
  std::atomic<uint64_t> suppressed_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_LOG_EVERY_H_
