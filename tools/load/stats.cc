#include "tools/load/stats.h"

#include <utility>

namespace gyre::load {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// How many seconds keep their histograms: late threads still add to those.
constexpr int64_t kKeptSeconds = 20;

}  // namespace

void Totals::Merge(const Totals& other) {
  latency.Merge(other.latency);
  service.Merge(other.service);
  delay.Merge(other.delay);
  own_delay.Merge(other.own_delay);
  operations += other.operations;
  bytes += other.bytes;
  operations_in_window += other.operations_in_window;
  bytes_in_window += other.bytes_in_window;
  due += other.due;
  for (const auto& [what, count] : other.errors) errors[what] += count;
}

int64_t Totals::error_count() const {
  int64_t count = 0;
  for (const auto& [what, times] : errors) count += times;
  return count;
}

SecondSummary Board::Summarise(int64_t second, const Second& stats) {
  return {.second = second,
          .operations = stats.operations,
          .bytes = stats.bytes,
          .errors = stats.errors,
          .p50_ns = stats.latency.Percentile(50),
          .p99_ns = stats.latency.Percentile(99),
          .max_ns = stats.latency.max()};
}

void Board::Publish(int64_t second, const Second& stats) {
  if (second == INT64_MIN) return;  // Nothing has been opened yet.
  MutexLock lock(mutex_);
  errors_ += stats.errors;
  if (const auto old = old_.find(second); old != old_.end()) {
    old->second.operations += stats.operations;
    old->second.bytes += stats.bytes;
    old->second.errors += stats.errors;
    return;
  }
  Second& into = seconds_[second];
  into.operations += stats.operations;
  into.bytes += stats.bytes;
  into.errors += stats.errors;
  into.latency.Merge(stats.latency);
  while (seconds_.begin()->first < seconds_.rbegin()->first - kKeptSeconds) {
    const auto& [oldest, kept] = *seconds_.begin();
    old_[oldest] = Summarise(oldest, kept);
    seconds_.erase(seconds_.begin());
  }
}

bool Board::Latest(SecondSummary* summary) const {
  MutexLock lock(mutex_);
  if (seconds_.empty()) return false;
  auto latest = std::prev(seconds_.end());
  *summary = Summarise(latest->first, latest->second);
  return true;
}

std::vector<SecondSummary> Board::Summaries() const {
  MutexLock lock(mutex_);
  std::vector<SecondSummary> all;
  for (const auto& [second, summary] : old_) all.push_back(summary);
  for (const auto& [second, stats] : seconds_) all.push_back(Summarise(second, stats));
  return all;
}

int64_t Board::error_count() const {
  MutexLock lock(mutex_);
  return errors_;
}

void Recorder::Started(int64_t intended_ns, int64_t now_ns, int64_t own_delay_ns) {
  if (!Measured(intended_ns)) return;
  ++totals_.due;
  totals_.delay.Record(now_ns - intended_ns);
  totals_.own_delay.Record(own_delay_ns);
}

void Recorder::Done(int64_t intended_ns, int64_t started_ns, int64_t now_ns, int64_t bytes,
                    int64_t operations) {
  Turn(now_ns);
  current_.operations += operations;
  current_.bytes += bytes;
  current_.latency.Record(now_ns - intended_ns);
  if (now_ns >= window_.warm_end_ns && now_ns < window_.end_ns) {
    totals_.operations_in_window += operations;
    totals_.bytes_in_window += bytes;
  }
  if (!Measured(intended_ns)) return;
  totals_.operations += operations;
  totals_.bytes += bytes;
  totals_.latency.Record(now_ns - intended_ns);
  totals_.service.Record(now_ns - started_ns);
}

void Recorder::Error(absl::string_view what, int64_t now_ns, int64_t count) {
  Turn(now_ns);
  current_.errors += count;
  totals_.errors[std::string(what)] += count;
}

void Recorder::CloseSecond(int64_t now_ns) {
  if (now_ns < window_.start_ns) return;
  board_.Publish(second_, current_);
  current_ = Second();
  const int64_t since_ns = now_ns - window_.warm_end_ns;
  second_ = since_ns >= 0 ? since_ns / kSecondNs : -((-since_ns + kSecondNs - 1) / kSecondNs);
  second_end_ns_ = window_.warm_end_ns + (second_ + 1) * kSecondNs;
}

}  // namespace gyre::load
