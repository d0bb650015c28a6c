// A log-linear histogram of latencies over all of int64: exact below 256, then 256
// buckets for every power of two, so that a percentile is within 1/512 (0.2 %) of the
// true value however long the tail. Nothing is clipped: there is no largest value.
//
// Threads: one at a time.
// Invariant: count() = the sum of the buckets; min() and max() are exact.
#ifndef GYRE_TOOLS_LOAD_HISTOGRAM_H_
#define GYRE_TOOLS_LOAD_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre::load {

class Histogram {
 public:
  static constexpr int kLinearBits = 8;

  // Negative values count as 0.
  void Record(int64_t value, int64_t count = 1);
  void Merge(const Histogram& other);
  void Clear();

  int64_t count() const { return count_; }
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double Mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The value of rank ceil(percent / 100 * count), to a bucket's middle; 0 when empty.
  int64_t Percentile(double percent) const;

 private:
  std::vector<int64_t> buckets_;  // as many as the largest value needs
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_HISTOGRAM_H_
