#include "tools/load/schedule.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace gyre::load {
namespace {

constexpr Window kWindow = {1'000'000'000, 2'000'000'000, 11'000'000'000};

std::vector<int64_t> All(Schedule schedule) {
  std::vector<int64_t> times;
  while (const std::optional<int64_t> due = schedule.Due(kWindow.end_ns)) {
    times.push_back(*due);
    schedule.Started();
  }
  EXPECT_TRUE(schedule.Exhausted(kWindow.end_ns));
  return times;
}

TEST(ScheduleTest, ConstantArrivalsDoNotDrift) {
  const std::vector<int64_t> times = All(Schedule(3000, Arrivals::kConstant, kWindow, 1, 0));
  ASSERT_EQ(times.size(), 30'000u);
  EXPECT_EQ(times.front(), kWindow.start_ns);
  for (size_t i = 0; i < times.size(); i += 3) {
    EXPECT_NEAR(times[i] - kWindow.start_ns, i / 3 * 1'000'000, 1);
  }
}

TEST(ScheduleTest, ThePhaseShiftsAThreadByAPartOfAGap) {
  EXPECT_EQ(All(Schedule(1000, Arrivals::kConstant, kWindow, 1, 0.25)).front(),
            kWindow.start_ns + 250'000);
}

TEST(ScheduleTest, PoissonGapsAreExponential) {
  const std::vector<int64_t> times = All(Schedule(5000, Arrivals::kPoisson, kWindow, 42, 0));
  EXPECT_NEAR(static_cast<double>(times.size()), 50'000, 5 * std::sqrt(50'000.0));
  // Of an exponential variable, 1/e is above the mean and the variance is its square.
  double sum = 0, squares = 0;
  int above = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double gap = static_cast<double>(times[i] - times[i - 1]);
    sum += gap;
    squares += gap * gap;
    above += gap > 200'000 ? 1 : 0;
  }
  const double count = static_cast<double>(times.size() - 1);
  const double mean = sum / count;
  EXPECT_NEAR(above / count, std::exp(-1), 0.02);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean) / mean, 1, 0.03);
}

TEST(ScheduleTest, TheSameSeedGivesTheSameTimes) {
  EXPECT_EQ(All(Schedule(500, Arrivals::kPoisson, kWindow, 9, 0)),
            All(Schedule(500, Arrivals::kPoisson, kWindow, 9, 0)));
  EXPECT_NE(All(Schedule(500, Arrivals::kPoisson, kWindow, 9, 0)),
            All(Schedule(500, Arrivals::kPoisson, kWindow, 10, 0)));
}

TEST(ScheduleTest, TheClockDoesNotStopForAStall) {
  Schedule schedule(1000, Arrivals::kConstant, kWindow, 1, 0);
  // Nothing could start for a second: what is due is still intended for back then.
  const int64_t now_ns = kWindow.start_ns + 1'000'000'000;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(*schedule.Due(now_ns), kWindow.start_ns + i * 1'000'000);
    schedule.Started();
  }
  EXPECT_EQ(schedule.NextNs(now_ns), now_ns);
}

TEST(ScheduleTest, ALateStartIsTheGeneratorsOwnOnlyWhereThereWasRoom) {
  Schedule schedule(1000, Arrivals::kConstant, kWindow, 1, 0);
  const int64_t intended = *schedule.Due(kWindow.start_ns);
  EXPECT_EQ(schedule.OwnDelayNs(intended, intended + 70), 70);
  schedule.NoteBlocked();
  schedule.NoteRoom(intended + 500);
  EXPECT_EQ(schedule.OwnDelayNs(intended, intended + 520), 20);
  schedule.NoteRoom(intended + 900);  // It was not blocked: says nothing new.
  EXPECT_EQ(schedule.OwnDelayNs(intended, intended + 920), 420);
}

TEST(ScheduleTest, AClosedLoopIsDueWithinTheWindow) {
  const Schedule schedule(0, Arrivals::kConstant, kWindow, 1, 0);
  EXPECT_FALSE(schedule.Due(kWindow.start_ns - 1).has_value());
  EXPECT_EQ(schedule.Due(kWindow.start_ns + 5), kWindow.start_ns + 5);
  EXPECT_FALSE(schedule.Due(kWindow.end_ns).has_value());
  EXPECT_TRUE(schedule.Exhausted(kWindow.end_ns));
}

}  // namespace
}  // namespace gyre::load
