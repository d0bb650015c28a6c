#include "engine/base/clock.h"

#include <ctime>

#include "engine/base/manual_clock.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(ClockTest, TheRealOneDoesNotGoBack) {
  const Clock& clock = Clock::Real();
  int64_t last = clock.NowNs();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = clock.NowNs();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, WallTimeIsMillisecondsOfTheEpoch) {
  const int64_t seconds = time(nullptr);
  EXPECT_NEAR(static_cast<double>(Clock::Real().WallTimeMs()) / 1000, static_cast<double>(seconds),
              5);
}

TEST(ClockTest, TheManualOneMovesOnlyWhenTold) {
  ManualClock clock(5'000'000, 1000);
  EXPECT_EQ(clock.NowNs(), 5'000'000);
  clock.AdvanceMs(3);
  EXPECT_EQ(clock.NowMs(), 8);
  EXPECT_EQ(clock.WallTimeMs(), 1003);
  clock.SetWallTimeMs(10);
  EXPECT_EQ(clock.WallTimeMs(), 10);
  EXPECT_EQ(clock.NowMs(), 8);
}

}  // namespace
}  // namespace gyre
