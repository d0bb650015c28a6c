#include "tools/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gyre::load {
namespace {

constexpr int kLinearBits = Histogram::kLinearBits;
constexpr size_t kPerPower = size_t{1} << kLinearBits;

constexpr size_t IndexOf(int64_t value) {
  const auto magnitude = static_cast<uint64_t>(value);
  const int bits = std::bit_width(magnitude);
  if (bits <= kLinearBits) return magnitude;
  const int shift = bits - kLinearBits - 1;
  // The top bit picks the power of two, the bits below it the bucket.
  return (static_cast<size_t>(shift) << kLinearBits) + static_cast<size_t>(magnitude >> shift);
}

constexpr int64_t MiddleOf(size_t index) {
  if (index < 2 * kPerPower) return static_cast<int64_t>(index);
  const int shift = static_cast<int>(index >> kLinearBits) - 1;
  const auto low = static_cast<int64_t>((index & (kPerPower - 1)) | kPerPower) << shift;
  return low + ((int64_t{1} << shift) - 1) / 2;
}

static_assert(IndexOf(255) == 255 && IndexOf(256) == 256 && IndexOf(511) == 511);
static_assert(IndexOf(512) == 512 && IndexOf(513) == 512 && IndexOf(514) == 513);
static_assert(MiddleOf(IndexOf(1 << 20)) >= 1 << 20);
static_assert(IndexOf(INT64_MAX) < 64 * kPerPower);

}  // namespace

void Histogram::Record(int64_t value, int64_t count) {
  if (count <= 0) return;
  value = std::max<int64_t>(value, 0);
  const size_t index = IndexOf(value);
  if (index >= buckets_.size()) buckets_.resize(index + 1);
  buckets_[index] += count;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += count;
  sum_ += static_cast<double>(value) * static_cast<double>(count);
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.buckets_.size() > buckets_.size()) buckets_.resize(other.buckets_.size());
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

void Histogram::Clear() { *this = Histogram(); }

int64_t Histogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const double rank = std::ceil(percent / 100 * static_cast<double>(count_) - 1e-6);
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(rank), 1, count_);
  if (wanted == count_) return max_;
  int64_t seen = 0;
  for (size_t index = 0; index < buckets_.size(); ++index) {
    seen += buckets_[index];
    if (seen >= wanted) return std::clamp(MiddleOf(index), min_, max_);
  }
  return max_;
}

}  // namespace gyre::load
