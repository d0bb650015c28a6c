#include "tools/load/schedule.h"

#include <cmath>

namespace gyre::load {

Schedule::Schedule(double per_second, Arrivals arrivals, const Window& window, uint64_t seed,
                   double phase)
    : window_(window),
      gap_ns_(per_second > 0 ? 1e9 / per_second : 0),
      arrivals_(arrivals),
      phase_(phase),
      random_(seed),
      next_ns_(window.start_ns) {
  if (is_open_loop()) Draw();
}

void Schedule::Draw() {
  if (arrivals_ == Arrivals::kConstant) {
    // From the index, so that rounding does not add up.
    elapsed_ns_ = (static_cast<double>(index_) + phase_) * gap_ns_;
  } else {
    elapsed_ns_ -= std::log1p(-random_.NextDouble()) * gap_ns_;
  }
  next_ns_ = window_.start_ns + static_cast<int64_t>(elapsed_ns_);
}

std::optional<int64_t> Schedule::Due(int64_t now_ns) const {
  if (!is_open_loop()) {
    if (now_ns < window_.start_ns || now_ns >= window_.end_ns) return std::nullopt;
    return now_ns;
  }
  if (next_ns_ > now_ns || next_ns_ >= window_.end_ns) return std::nullopt;
  return next_ns_;
}

void Schedule::Started() {
  if (!is_open_loop()) return;
  ++index_;
  Draw();
}

bool Schedule::Exhausted(int64_t now_ns) const {
  return is_open_loop() ? next_ns_ >= window_.end_ns : now_ns >= window_.end_ns;
}

int64_t Schedule::NextNs(int64_t now_ns) const {
  if (now_ns < window_.start_ns) return window_.start_ns;
  if (is_open_loop() && next_ns_ < window_.end_ns) return next_ns_;
  return now_ns < window_.end_ns ? window_.end_ns : INT64_MAX;
}

}  // namespace gyre::load
