// A log-linear histogram (as HdrHistogram's): exact below 16, then 16 buckets
// for every power of two, so a percentile is within 1/16 of the true value
// (1/32 on average) over the whole range up to 2^42 (73 minutes in nanoseconds);
// larger values count in the last bucket, negative ones in the first.
//
// Threads: Record any, on the thread's own cells; Snapshot any.
#ifndef GYRE_ENGINE_METRICS_HISTOGRAM_H_
#define GYRE_ENGINE_METRICS_HISTOGRAM_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "engine/metrics/thread_cells.h"

namespace gyre {

struct HistogramBuckets {
  static constexpr int kLinearBits = 4;
  static constexpr int kMaxBits = 42;
  static constexpr uint32_t kCount = (kMaxBits - kLinearBits + 1) << kLinearBits;

  static constexpr uint32_t IndexOf(int64_t value) {
    if (value < 0) return 0;
    const auto magnitude = static_cast<uint64_t>(value);
    const int bits = static_cast<int>(std::bit_width(magnitude));
    if (bits <= kLinearBits) return static_cast<uint32_t>(magnitude);
    if (bits > kMaxBits) return kCount - 1;
    const int shift = bits - kLinearBits - 1;
    // The top bit picks the power of two, the four below it the bucket.
    return (static_cast<uint32_t>(shift) << kLinearBits) +
           static_cast<uint32_t>(magnitude >> shift);
  }
  // The smallest value of a bucket.
  static constexpr int64_t LowerBound(uint32_t index) {
    if (index < (2u << kLinearBits)) return index;
    const int shift = static_cast<int>(index >> kLinearBits) - 1;
    return static_cast<int64_t>((index & 15) | 16) << shift;
  }
};

static_assert(HistogramBuckets::IndexOf(15) == 15);
static_assert(HistogramBuckets::IndexOf(16) == 16);
static_assert(HistogramBuckets::IndexOf(31) == 31);
static_assert(HistogramBuckets::IndexOf(32) == 32 && HistogramBuckets::IndexOf(33) == 32);
static_assert(HistogramBuckets::LowerBound(33) == 34);
static_assert(HistogramBuckets::IndexOf((int64_t{1} << 42) - 1) == HistogramBuckets::kCount - 1);

struct HistogramSnapshot {
  std::vector<int64_t> buckets;  // HistogramBuckets::kCount counts
  int64_t count = 0;
  int64_t sum = 0;

  // The middle of the bucket that holds the value of rank `fraction` (0 … 1);
  // 0 when nothing was recorded.
  int64_t Percentile(double fraction) const;
  double Mean() const { return count == 0 ? 0 : static_cast<double>(sum) / count; }
};

// A handle: copy it. One that was made by default records nothing.
class Histogram {
 public:
  Histogram() = default;
  Histogram(ThreadCells* cells, uint32_t first) : cells_(cells), first_(first) {}

  void Record(int64_t value) {
    if (cells_ == nullptr) return;
    cells_->Add(first_ + HistogramBuckets::IndexOf(value), 1);
    cells_->Add(first_ + HistogramBuckets::kCount, value);
  }
  HistogramSnapshot Snapshot() const;

  uint32_t first_cell() const { return first_; }

  // Cells that one takes: the buckets and the sum.
  static constexpr uint32_t kCellCount = HistogramBuckets::kCount + 1;

 private:
  ThreadCells* cells_ = nullptr;
  uint32_t first_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_HISTOGRAM_H_
