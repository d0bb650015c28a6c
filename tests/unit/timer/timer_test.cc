#include "engine/timer/timer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/concurrent/thread_runner.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int64_t kMs = 1'000'000;

struct Timeout : TimerEntry {
  Timeout() {
    on_expire = [](TimerEntry* entry) { static_cast<Timeout*>(entry)->fired.fetch_add(1); };
  }
  std::atomic<int> fired{0};
};

TEST(TimerTest, FiresWhenItsTimeHasCome) {
  ManualClock clock;
  Timer timer(clock);
  Timeout timeout;
  timer.Add(&timeout, 10 * kMs);
  EXPECT_EQ(timer.size(), 1u);
  EXPECT_FALSE(timer.RunOnce(9 * kMs));
  EXPECT_EQ(timeout.fired, 0);
  EXPECT_TRUE(timer.RunOnce(10 * kMs));
  EXPECT_EQ(timeout.fired, 1);
  EXPECT_FALSE(timer.RunOnce(100 * kMs));
  EXPECT_EQ(timeout.fired, 1);
}

TEST(TimerTest, SaysWhenItWantsToRunNext) {
  ManualClock clock;
  Timer timer(clock);
  EXPECT_EQ(timer.NextDeadlineNs(), ThreadBody::kNever);
  Timeout timeout;
  timer.Add(&timeout, 10 * kMs);
  EXPECT_EQ(timer.NextDeadlineNs(), 10 * kMs);
  EXPECT_TRUE(timer.Cancel(&timeout));
  EXPECT_EQ(timer.NextDeadlineNs(), ThreadBody::kNever);
}

TEST(TimerTest, CancelIsTrueOnceAndKeepsItFromFiring) {
  ManualClock clock;
  Timer timer(clock);
  Timeout timeout;
  EXPECT_FALSE(timer.Cancel(&timeout));
  timer.Add(&timeout, 10 * kMs);
  EXPECT_TRUE(timer.Cancel(&timeout));
  EXPECT_FALSE(timer.Cancel(&timeout));
  timer.RunOnce(20 * kMs);
  EXPECT_EQ(timeout.fired, 0);
}

struct Periodic : TimerEntry {
  Timer* timer = nullptr;
  Timeout* victim = nullptr;
  int fired = 0;
};

TEST(TimerTest, AnExpiryMayAddAndCancelTimers) {
  ManualClock clock;
  Timer timer(clock);
  Periodic periodic;
  Timeout victim;
  periodic.timer = &timer;
  periodic.victim = &victim;
  periodic.on_expire = [](TimerEntry* entry) {
    auto* self = static_cast<Periodic*>(entry);
    ++self->fired;
    self->timer->Cancel(self->victim);
    if (self->fired < 3) self->timer->Add(self, self->deadline_ns + 5 * kMs);
  };
  timer.Add(&periodic, 5 * kMs);
  timer.Add(&victim, 5 * kMs);
  for (int64_t ms = 1; ms < 50; ++ms) timer.RunOnce(ms * kMs);
  EXPECT_EQ(periodic.fired, 3);
  EXPECT_EQ(victim.fired, 0);
}

TEST(TimerTest, ManyAtOnceTakeSeveralTurns) {
  ManualClock clock;
  Timer timer(clock);
  std::vector<Timeout> timeouts(1000);
  for (Timeout& timeout : timeouts) timer.Add(&timeout, kMs);
  EXPECT_TRUE(timer.RunOnce(kMs));
  const auto waiting = std::count_if(timeouts.begin(), timeouts.end(),
                                     [](const Timeout& t) { return t.fired == 0; });
  EXPECT_GT(waiting, 0);
  EXPECT_LT(waiting, 1000);
  while (timer.RunOnce(kMs)) {
  }
  for (Timeout& timeout : timeouts) EXPECT_EQ(timeout.fired, 1);
}

TEST(TimerTest, ItsThreadWakesForAnEarlierDeadline) {
  Timer timer(Clock::Real());
  ThreadRunner runner("timer", timer, timer.wakeup(), Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  Timeout late, early;
  const int64_t now_ns = Clock::Real().NowNs();
  timer.Add(&late, now_ns + 3600'000 * kMs);
  while (timer.wakeup().waiter_count() == 0) std::this_thread::yield();
  timer.Add(&early, now_ns + 20 * kMs);
  while (early.fired == 0) std::this_thread::yield();
  EXPECT_GE(Clock::Real().NowNs(), now_ns + 20 * kMs);
  EXPECT_TRUE(timer.Cancel(&late));
  runner.Stop();
}

TEST(TimerTest, EachTimerFiresOnceOrIsCancelledOnceUnderRacingThreads) {
  Timer timer(Clock::Real());
  ThreadRunner runner("timer", timer, timer.wakeup(), Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  constexpr int kThreads = 4;
  constexpr int kTimeouts = 3000;
  std::vector<std::vector<Timeout>> timeouts;
  std::vector<std::vector<int>> cancelled(kThreads, std::vector<int>(kTimeouts, 0));
  for (int t = 0; t < kThreads; ++t) timeouts.emplace_back(kTimeouts);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(t + 1);
      for (int i = 0; i < kTimeouts; ++i) {
        timer.Add(&timeouts[t][i], Clock::Real().NowNs() + random.Between(0, 3 * kMs));
        const int other = static_cast<int>(random.Below(i + 1));
        if (timer.Cancel(&timeouts[t][other])) ++cancelled[t][other];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (timer.size() > 0) std::this_thread::yield();
  runner.Stop();
  while (timer.RunOnce(Clock::Real().NowNs())) {
  }
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kTimeouts; ++i) ASSERT_EQ(timeouts[t][i].fired + cancelled[t][i], 1);
  }
}

}  // namespace
}  // namespace gyre
