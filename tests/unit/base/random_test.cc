#include "engine/base/random.h"

#include <array>
#include <string>

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(RandomTest, TheSameSeedGivesTheSameSequence) {
  Random one(42), two(42), other(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = one.Next();
    ASSERT_EQ(value, two.Next());
    differs |= value != other.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(RandomTest, BelowIsRoughlyUniform) {
  Random random(1);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100'000; ++i) ++counts.at(random.Below(10));
  for (const int count : counts) {
    EXPECT_GT(count, 9'500);
    EXPECT_LT(count, 10'500);
  }
}

TEST(RandomTest, BetweenReachesBothEnds) {
  Random random(2);
  bool low = false;
  bool high = false;
  for (int i = 0; i < 1000; ++i) {
    const int64_t value = random.Between(-2, 2);
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 2);
    low |= value == -2;
    high |= value == 2;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(random.Between(7, 7), 7);
}

TEST(RandomTest, FillWritesExactlyTheAskedBytes) {
  std::string bytes(16, 'x');
  Random(3).Fill(bytes.data(), 13);
  EXPECT_EQ(bytes.substr(13), "xxx");
  EXPECT_NE(bytes.substr(0, 13), std::string(13, 'x'));
}

TEST(RandomTest, DoublesStayBelowOne) {
  Random random(4);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.NextDouble();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

}  // namespace
}  // namespace gyre
