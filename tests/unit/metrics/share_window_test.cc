// Shares of time: what is idle, for how long, as a total and over the last seconds.
#include "engine/metrics/share_window.h"

#include "engine/base/time_share.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(TimeShare, CountsWhatGoesOn) {
  TimeShare share;
  EXPECT_EQ(share.TotalNs(5), 0);
  share.Begin(10);
  EXPECT_EQ(share.TotalNs(25), 15);
  share.Begin(20);  // it goes on
  share.End(30);
  EXPECT_EQ(share.TotalNs(100), 20);
  share.End(200);  // it had ended
  EXPECT_EQ(share.TotalNs(300), 20);
}

TEST(TimeShare, LeavesOutWhatWasOtherwise) {
  TimeShare share;
  share.Begin(0);
  share.End(100, 30);
  EXPECT_EQ(share.TotalNs(100), 70);
  share.Begin(100);
  share.End(110, 30);  // no less than nothing
  EXPECT_EQ(share.TotalNs(200), 70);
}

TEST(ShareWindow, IsTheShareSinceTheStartAtFirst) {
  ShareWindow window;
  EXPECT_DOUBLE_EQ(window.Update(4 * kSecond, kSecond, 1, 0), 0.25);
}

TEST(ShareWindow, ForgetsWhatIsLongPast) {
  ShareWindow window;
  window.Update(0, 0, 1, 0);
  // Idle for a minute, then busy.
  for (int64_t s = 5; s <= 60; s += 5) window.Update(s * kSecond, s * kSecond, 1, 0);
  double share = 1;
  for (int64_t s = 65; s <= 85; s += 5) share = window.Update(s * kSecond, 60 * kSecond, 1, 0);
  EXPECT_DOUBLE_EQ(share, 0);
}

TEST(ShareWindow, IsAMeanOverThreads) {
  ShareWindow window;
  EXPECT_DOUBLE_EQ(window.Update(10 * kSecond, 20 * kSecond, 4, 0), 0.5);
}

TEST(ShareWindow, ATotalThatShrankDoesNotCount) {
  ShareWindow window;
  window.Update(1 * kSecond, kSecond, 1, 0);
  EXPECT_GE(window.Update(2 * kSecond, kSecond / 2, 1, 0), 0.5);
  EXPECT_EQ(window.total_ns(), kSecond);
}

}  // namespace
}  // namespace gyre
