#include "engine/concurrent/poll_until.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(PollUntilTest, ItLooksUntilItIsSo) {
  int looks = 0;
  EXPECT_TRUE(PollUntil([&] { return ++looks == 3; }, INT64_MAX));
  EXPECT_EQ(looks, 3);
}

TEST(PollUntilTest, TheDeadlineIsOfTimeAndNotOfLooks) {
  int looks = 0;
  const auto slow = [&] {
    ++looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return false;
  };
  EXPECT_FALSE(PollUntil(slow, 100));
  EXPECT_LE(looks, 5);
}

TEST(PollUntilTest, ItLooksOnceWhateverTheDeadline) {
  for (const int64_t deadline_ms : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_TRUE(PollUntil([] { return true; }, deadline_ms));
    EXPECT_FALSE(PollUntil([] { return false; }, deadline_ms));
  }
}

}  // namespace
}  // namespace gyre
