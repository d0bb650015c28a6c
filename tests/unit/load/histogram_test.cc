#include "tools/load/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre::load {
namespace {

constexpr double kPercents[] = {0, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100};

int64_t Exact(const std::vector<int64_t>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()) - 1e-6);
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

void ExpectClose(std::vector<int64_t> values) {
  Histogram histogram;
  for (const int64_t value : values) histogram.Record(value);
  std::sort(values.begin(), values.end());
  for (const double percent : kPercents) {
    const int64_t exact = Exact(values, percent);
    const double bound = static_cast<double>(exact) / 512;
    EXPECT_NEAR(static_cast<double>(histogram.Percentile(percent)), static_cast<double>(exact),
                bound)
        << "p" << percent;
  }
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.Percentile(100), values.back());
}

TEST(HistogramTest, PercentilesAreWithinAFiveHundredthOfExactSorting) {
  Random random(1);
  std::vector<int64_t> lognormal, uniform, tail, tiny;
  for (int i = 0; i < 100'000; ++i) {
    const double u = random.NextDouble();
    lognormal.push_back(static_cast<int64_t>(200'000 * std::exp(3 * u * u * u)));
    uniform.push_back(random.Between(0, 1'000'000'000));
    // One in five thousand is a stall, up to an hour.
    tail.push_back(random.OneIn(5'000) ? random.Between(1'000'000'000, 3'600'000'000'000)
                                       : random.Between(50'000, 90'000));
    tiny.push_back(random.Between(0, 300));
  }
  ExpectClose(lognormal);
  ExpectClose(uniform);
  ExpectClose(tail);
  ExpectClose(tiny);
}

TEST(HistogramTest, NothingOverflows) {
  Histogram histogram;
  histogram.Record(INT64_MAX);
  histogram.Record(1);
  histogram.Record(-5);
  EXPECT_EQ(histogram.max(), INT64_MAX);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.Percentile(100), INT64_MAX);
  EXPECT_EQ(histogram.Percentile(50), 1);
  EXPECT_EQ(histogram.count(), 3);
}

TEST(HistogramTest, AMergeIsAsIfOneHadSeenAll) {
  Random random(7);
  Histogram one, two, all;
  for (int i = 0; i < 50'000; ++i) {
    const int64_t value = random.Between(0, int64_t{1} << random.Between(1, 40));
    (random.OneIn(3) ? one : two).Record(value);
    all.Record(value);
  }
  one.Merge(two);
  one.Merge(Histogram());
  EXPECT_EQ(one.count(), all.count());
  EXPECT_EQ(one.min(), all.min());
  EXPECT_EQ(one.max(), all.max());
  for (const double percent : kPercents) {
    EXPECT_EQ(one.Percentile(percent), all.Percentile(percent));
  }
}

TEST(HistogramTest, EmptyIsZero) {
  Histogram histogram;
  EXPECT_EQ(histogram.Percentile(99), 0);
  EXPECT_EQ(histogram.Mean(), 0);
  histogram.Record(9, 0);
  EXPECT_EQ(histogram.count(), 0);
}

}  // namespace
}  // namespace gyre::load
