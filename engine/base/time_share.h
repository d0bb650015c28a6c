// How long something has been so, in all: a thread idle, an acceptor blocked. One thread
// tells when it begins and ends; anyone may ask meanwhile, and what goes on counts, too.
//
// Threads: Begin and End one; TotalNs any.
#ifndef GYRE_ENGINE_BASE_TIME_SHARE_H_
#define GYRE_ENGINE_BASE_TIME_SHARE_H_

#include <atomic>
#include <cstdint>

namespace gyre {

class TimeShare {
 public:
  // Nothing when it has begun already.
  void Begin(int64_t now_ns) {
    if (began_ns_.load(std::memory_order_relaxed) == kNotNow) {
      began_ns_.store(now_ns, std::memory_order_release);
    }
  }
  // `not_counted_ns` of it were otherwise after all. Nothing when it has not begun.
  void End(int64_t now_ns, int64_t not_counted_ns = 0) {
    const int64_t began_ns = began_ns_.load(std::memory_order_relaxed);
    if (began_ns == kNotNow) return;
    const int64_t span_ns = now_ns - began_ns - not_counted_ns;
    // Not now first: a reader in between misses a span, and finds it the next time.
    began_ns_.store(kNotNow, std::memory_order_release);
    if (span_ns > 0) {
      total_ns_.store(total_ns_.load(std::memory_order_relaxed) + span_ns,
                      std::memory_order_release);
    }
  }
  int64_t TotalNs(int64_t now_ns) const {
    const int64_t began_ns = began_ns_.load(std::memory_order_acquire);
    const int64_t total_ns = total_ns_.load(std::memory_order_acquire);
    if (began_ns == kNotNow || began_ns != began_ns_.load(std::memory_order_acquire)) {
      return total_ns;
    }
    return total_ns + (now_ns > began_ns ? now_ns - began_ns : 0);
  }

 private:
  static constexpr int64_t kNotNow = INT64_MIN;

  std::atomic<int64_t> began_ns_{kNotNow};
  std::atomic<int64_t> total_ns_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_TIME_SHARE_H_
