#include "tools/load/find_max.h"

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre::load {
namespace {

// A server whose p99 grows as that of a queue with a capacity.
SearchStep Measure(double rate, double capacity) {
  const double load = rate / capacity;
  return {.rate = rate,
          .reached = std::min(rate, capacity),
          .p99_ms = load < 1 ? 1 / (1 - load) : 1e6,
          .valid = load < 1};
}

TEST(FindMaxTest, FindsTheRateWithinFivePercentFromEitherSide) {
  for (const double first : {10.0, 1000.0, 64'000.0, 10'000'000.0}) {
    const absl::StatusOr<Search> search =
        FindMax(first, 10, [](double rate) { return Measure(rate, 50'000); });
    ASSERT_TRUE(search.ok());
    // 1 / (1 - load) = 10 at 90 % of the capacity.
    EXPECT_LE(search->found_rate, 45'000);
    EXPECT_GE(search->found_rate, 45'000 / 1.06) << first;
    EXPECT_EQ(search->confirmations, 3);
    EXPECT_GT(search->broken_rate, search->found_rate);
  }
}

TEST(FindMaxTest, ARateThatWasLuckyOnceIsNotReported) {
  Random random(5);
  // Above 20,000 four runs of five break the bound.
  const absl::StatusOr<Search> search = FindMax(1000, 10, [&](double rate) {
    SearchStep step = Measure(rate, 1e9);
    if (rate > 20'000 && !random.OneIn(5)) step.p99_ms = 50;
    return step;
  });
  ASSERT_TRUE(search.ok());
  EXPECT_LE(search->found_rate, 20'000 * 1.05);
  EXPECT_GT(search->found_rate, 10'000);
}

TEST(FindMaxTest, ARunThatIsNotValidBreaksTheBound) {
  const absl::StatusOr<Search> search = FindMax(1000, 1e9, [](double rate) {
    return SearchStep{.rate = rate, .p99_ms = 1, .valid = rate < 3000};
  });
  ASSERT_TRUE(search.ok());
  EXPECT_LT(search->found_rate, 3000);
  EXPECT_GT(search->found_rate, 2800);
}

TEST(FindMaxTest, NoRateIsAlsoAnAnswer) {
  const absl::StatusOr<Search> search = FindMax(
      1000, 10, [](double rate) { return SearchStep{.rate = rate, .p99_ms = 99, .valid = true}; });
  ASSERT_TRUE(search.ok());
  EXPECT_EQ(search->found_rate, 0);
  EXPECT_EQ(search->confirmations, 0);
}

TEST(FindMaxTest, AnErrorEndsTheSearch) {
  const absl::StatusOr<Search> search = FindMax(1000, 10, [](double) -> absl::StatusOr<SearchStep> {
    return absl::UnavailableError("gone");
  });
  EXPECT_EQ(search.status().message(), "gone");
}

}  // namespace
}  // namespace gyre::load
