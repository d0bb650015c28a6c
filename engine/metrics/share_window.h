// The share of time that something was so, over the last ten to twenty seconds, from a
// total that only grows: what Kafka's idle percentages are.
//
// Threads: one at a time.
#ifndef GYRE_ENGINE_METRICS_SHARE_WINDOW_H_
#define GYRE_ENGINE_METRICS_SHARE_WINDOW_H_

#include <algorithm>
#include <cstdint>

namespace gyre {

class ShareWindow {
 public:
  // `total_ns` of the time that passed, by `parallel` threads at once. The first call has
  // nothing to compare with and takes the time since `since_ns`.
  double Update(int64_t now_ns, int64_t total_ns, int parallel, int64_t since_ns) {
    // What is estimated may shrink a little; a total does not.
    total_ns = latest_total_ns_ = std::max(latest_total_ns_, total_ns);
    if (!started_) {
      started_ = true;
      older_ = newer_ = Mark{since_ns, 0};
    }
    if (now_ns - newer_.at_ns >= kWindowNs) {
      older_ = newer_;
      newer_ = Mark{now_ns, total_ns};
    }
    const double span_ns = static_cast<double>(now_ns - older_.at_ns) * std::max(parallel, 1);
    if (span_ns <= 0) return 1;
    return std::clamp(static_cast<double>(total_ns - older_.total_ns) / span_ns, 0.0, 1.0);
  }
  // The total, made to grow only.
  int64_t total_ns() const { return latest_total_ns_; }

 private:
  static constexpr int64_t kWindowNs = 10'000'000'000;

  struct Mark {
    int64_t at_ns = 0;
    int64_t total_ns = 0;
  };

  bool started_ = false;
  int64_t latest_total_ns_ = 0;
  Mark older_;
  Mark newer_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_SHARE_WINDOW_H_
