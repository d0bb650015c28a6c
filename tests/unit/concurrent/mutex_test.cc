#include "engine/concurrent/mutex.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Account {
  Mutex mutex;
  CondVar changed;
  int balance ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, ExcludesOtherThreads) {
  Account account;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        MutexLock lock(account.mutex);
        ++account.balance;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(account.mutex);
  EXPECT_EQ(account.balance, 4000);
}

TEST(MutexTest, TryLockRefusesWhileItIsHeld) {
  Account account;
  MutexLock lock(account.mutex);
  std::thread([&] {
    const bool locked = account.mutex.TryLock();
    EXPECT_FALSE(locked);
    if (locked) account.mutex.Unlock();
  }).join();
}

TEST(CondVarTest, WaitReturnsAfterANotify) {
  Account account;
  std::thread payer([&] {
    MutexLock lock(account.mutex);
    account.balance = 5;
    account.changed.NotifyAll();
  });
  {
    MutexLock lock(account.mutex);
    while (account.balance == 0) account.changed.Wait(account.mutex);
    EXPECT_EQ(account.balance, 5);
  }
  payer.join();
}

TEST(CondVarTest, WaitForGivesUpAfterTheTimeout) {
  Account account;
  MutexLock lock(account.mutex);
  bool notified = true;
  for (int i = 0; i < 100 && notified; ++i) {
    notified = account.changed.WaitFor(account.mutex, 1'000'000);
  }
  EXPECT_FALSE(notified);
}

}  // namespace
}  // namespace gyre
