#include "engine/metrics/histogram.h"

#include <algorithm>
#include <cmath>

namespace gyre {

int64_t HistogramSnapshot::Percentile(double fraction) const {
  if (count == 0) return 0;
  const auto wanted = std::clamp<int64_t>(
      static_cast<int64_t>(std::ceil(fraction * static_cast<double>(count))), 1, count);
  int64_t seen = 0;
  for (uint32_t index = 0; index < buckets.size(); ++index) {
    seen += buckets[index];
    if (seen < wanted) continue;
    const int64_t low = HistogramBuckets::LowerBound(index);
    const int64_t high = HistogramBuckets::LowerBound(index + 1) - 1;
    return low + (high - low) / 2;
  }
  return HistogramBuckets::LowerBound(HistogramBuckets::kCount - 1);
}

HistogramSnapshot Histogram::Snapshot() const {
  HistogramSnapshot snapshot;
  snapshot.buckets.resize(kCellCount, 0);
  if (cells_ != nullptr) cells_->AddTo(first_, kCellCount, snapshot.buckets.data());
  snapshot.sum = snapshot.buckets.back();
  snapshot.buckets.pop_back();
  for (const int64_t bucket : snapshot.buckets) snapshot.count += bucket;
  return snapshot;
}

}  // namespace gyre
