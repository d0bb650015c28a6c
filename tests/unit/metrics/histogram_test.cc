#include "engine/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Fixture {
  Fixture() : histogram(&cells, cells.Allocate(Histogram::kCellCount)) {}
  ThreadCells cells{1 << 12};
  Histogram histogram;
};

TEST(HistogramTest, EveryValueFallsIntoTheBucketThatBeginsAtOrBelowIt) {
  uint32_t last = 0;
  for (int64_t value = 0; value < 100'000; ++value) {
    const uint32_t index = HistogramBuckets::IndexOf(value);
    ASSERT_LE(HistogramBuckets::LowerBound(index), value);
    ASSERT_GT(HistogramBuckets::LowerBound(index + 1), value);
    ASSERT_TRUE(index == last || index == last + 1) << value;
    last = index;
  }
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = static_cast<int64_t>(random.Next() >> (22 + random.Below(42)));
    const uint32_t index = HistogramBuckets::IndexOf(value);
    ASSERT_LT(index, HistogramBuckets::kCount);
    ASSERT_LE(HistogramBuckets::LowerBound(index), value);
    if (index + 1 < HistogramBuckets::kCount) {
      ASSERT_GT(HistogramBuckets::LowerBound(index + 1), value);
    }
  }
}

TEST(HistogramTest, ValuesOutsideTheRangeCountAtItsEnds) {
  EXPECT_EQ(HistogramBuckets::IndexOf(-1), 0u);
  EXPECT_EQ(HistogramBuckets::IndexOf(INT64_MIN), 0u);
  EXPECT_EQ(HistogramBuckets::IndexOf(INT64_MAX), HistogramBuckets::kCount - 1);
}

TEST(HistogramTest, PercentilesAreWithinASixteenthOfTheTruth) {
  Fixture fixture;
  Random random(7);
  std::vector<int64_t> values;
  int64_t sum = 0;
  for (int i = 0; i < 50'000; ++i) {
    const auto value = static_cast<int64_t>(random.Next() >> (30 + random.Below(30)));
    values.push_back(value);
    sum += value;
    fixture.histogram.Record(value);
  }
  std::sort(values.begin(), values.end());
  const HistogramSnapshot snapshot = fixture.histogram.Snapshot();
  EXPECT_EQ(snapshot.count, 50'000);
  EXPECT_EQ(snapshot.sum, sum);
  EXPECT_DOUBLE_EQ(snapshot.Mean(), static_cast<double>(sum) / 50'000);
  for (const double fraction : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(fraction * 50'000)));
    const auto truth = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(snapshot.Percentile(fraction)), truth, truth / 16 + 0.5)
        << fraction;
  }
}

TEST(HistogramTest, AnEmptyOneHasNoPercentiles) {
  Fixture fixture;
  EXPECT_EQ(fixture.histogram.Snapshot().Percentile(0.99), 0);
  EXPECT_EQ(fixture.histogram.Snapshot().Mean(), 0);
}

TEST(HistogramTest, OneMadeByDefaultRecordsNothing) {
  Histogram histogram;
  histogram.Record(5);
  EXPECT_EQ(histogram.Snapshot().count, 0);
}

}  // namespace
}  // namespace gyre
