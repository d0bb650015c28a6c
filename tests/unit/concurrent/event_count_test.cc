#include "engine/concurrent/event_count.h"

#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

void WaitForWaiters(const EventCount& event, uint32_t count) {
  while (event.waiter_count() != count) std::this_thread::yield();
}

TEST(EventCountTest, ANotifyBetweenPrepareAndCommitEndsTheWait) {
  EventCount event;
  const EventCount::Key key = event.PrepareWait();
  event.NotifyOne();
  event.CommitWait(key);  // would hang
  EXPECT_EQ(event.waiter_count(), 0u);
}

TEST(EventCountTest, ANotifyBeforePrepareDoesNotCount) {
  EventCount event;
  event.NotifyOne();
  event.NotifyAll();
  const int64_t start_ns = Clock::Real().NowNs();
  event.CommitWait(event.PrepareWait(), 20'000'000);
  EXPECT_GE(Clock::Real().NowNs() - start_ns, 19'000'000);
}

TEST(EventCountTest, ACancelledWaitLeavesNoTrace) {
  EventCount event;
  event.PrepareWait();
  EXPECT_EQ(event.waiter_count(), 1u);
  event.CancelWait();
  EXPECT_EQ(event.waiter_count(), 0u);
}

TEST(EventCountTest, ASecondWaiterIsWokenByASecondNotify) {
  EventCount event;
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 2; ++i) {
    sleepers.emplace_back([&] {
      event.CommitWait(event.PrepareWait());
      woken.fetch_add(1);
    });
  }
  WaitForWaiters(event, 2);
  event.NotifyOne();
  while (woken.load() < 1) std::this_thread::yield();
  // Spurious returns are allowed by the contract, so no "exactly one" here.
  event.NotifyOne();
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken.load(), 2);
  EXPECT_EQ(event.waiter_count(), 0u);
}

TEST(EventCountTest, TwoNotifiesInARowWakeTwoSleepers) {
  for (int round = 0; round < 200; ++round) {
    EventCount event;
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 2; ++i) {
      sleepers.emplace_back([&] { event.CommitWait(event.PrepareWait()); });
    }
    WaitForWaiters(event, 2);
    event.NotifyOne();
    event.NotifyOne();
    for (std::thread& sleeper : sleepers) sleeper.join();
  }
}

TEST(EventCountTest, OneNotifyWakesAsManyAsItIsTold) {
  EventCount event;
  std::atomic<int> awake{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      event.CommitWait(event.PrepareWait());
      ++awake;
    });
  }
  WaitForWaiters(event, 4);
  event.Notify(0);
  EXPECT_EQ(event.waiter_count(), 4u);
  event.Notify(3);
  while (awake < 3) std::this_thread::yield();  // would hang
  event.Notify(3);                              // more than there are
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(event.waiter_count(), 0u);
}

TEST(EventCountTest, NotifyAllWakesEverybody) {
  EventCount event;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 5; ++i) {
    sleepers.emplace_back([&] { event.CommitWait(event.PrepareWait()); });
  }
  WaitForWaiters(event, 5);
  event.NotifyAll();
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(event.waiter_count(), 0u);
}

TEST(EventCountTest, AWaiterThatPreparesAfterTheNotifyIsNotTakenForTheNotifiedOne) {
  EventCount event;
  const EventCount::Key first = event.PrepareWait();
  event.NotifyOne();
  // The first waiter holds the signal and has not left yet.
  std::thread second([&] { event.CommitWait(event.PrepareWait()); });
  WaitForWaiters(event, 2);
  event.NotifyOne();
  second.join();  // would hang if the second notify had been taken for surplus
  event.CommitWait(first);
  EXPECT_EQ(event.waiter_count(), 0u);
}

}  // namespace
}  // namespace gyre
