#include "engine/base/log_every.h"

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(LogEveryTest, LetsSoManyLinesThroughPerInterval) {
  LogEvery limiter(2, 1000);
  uint64_t suppressed = 99;
  EXPECT_TRUE(limiter.TryTake(0, &suppressed));
  EXPECT_EQ(suppressed, 0u);
  EXPECT_TRUE(limiter.TryTake(1, &suppressed));
  EXPECT_FALSE(limiter.TryTake(2, &suppressed));
  EXPECT_FALSE(limiter.TryTake(999, &suppressed));
}

TEST(LogEveryTest, TheNextIntervalSaysHowManyWereHeldBack) {
  LogEvery limiter(1, 1000);
  uint64_t suppressed = 0;
  EXPECT_TRUE(limiter.TryTake(5000, &suppressed));
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(limiter.TryTake(5500, &suppressed));
  EXPECT_TRUE(limiter.TryTake(6000, &suppressed));
  EXPECT_EQ(suppressed, 7u);
  EXPECT_FALSE(limiter.TryTake(6001, &suppressed));
  EXPECT_TRUE(limiter.TryTake(7000, &suppressed));
  EXPECT_EQ(suppressed, 1u);
}

}  // namespace
}  // namespace gyre
