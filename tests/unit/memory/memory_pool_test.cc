#include "engine/memory/memory_pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Waiter : MemoryWaiter {
  explicit Waiter(int64_t wanted_bytes) {
    bytes = wanted_bytes;
    on_granted = [](MemoryWaiter* waiter) { static_cast<Waiter*>(waiter)->granted.fetch_add(1); };
  }
  std::atomic<int> granted{0};
};

TEST(MemoryPoolTest, TheCapacityIsAStrictBound) {
  MemoryPool pool(100);
  EXPECT_TRUE(pool.TryReserve(60));
  EXPECT_FALSE(pool.TryReserve(41));
  EXPECT_TRUE(pool.TryReserve(40));
  EXPECT_FALSE(pool.TryReserve(1));
  EXPECT_EQ(pool.used_bytes(), 100);
  pool.Release(100);
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(MemoryPoolTest, AnUnboundedPoolCountsOnly) {
  MemoryPool pool(MemoryPool::kUnbounded);
  EXPECT_TRUE(pool.TryReserve(int64_t{1} << 60));
  EXPECT_TRUE(pool.TryReserve(int64_t{1} << 60));
  EXPECT_EQ(pool.used_bytes(), int64_t{1} << 61);
  pool.Release(int64_t{1} << 61);
}

TEST(MemoryPoolTest, AWaiterThatFitsIsGrantedAtOnce) {
  MemoryPool pool(100);
  Waiter waiter(100);
  EXPECT_TRUE(pool.Wait(&waiter));
  EXPECT_EQ(waiter.granted, 1);
  EXPECT_EQ(pool.used_bytes(), 100);
  EXPECT_FALSE(pool.CancelWait(&waiter));
  pool.Release(100);
}

TEST(MemoryPoolTest, WaitersAreServedInOrderAsBytesReturn) {
  MemoryPool pool(100);
  ASSERT_TRUE(pool.TryReserve(100));
  Waiter large(80), small(10);
  EXPECT_TRUE(pool.Wait(&large));
  EXPECT_TRUE(pool.Wait(&small));
  EXPECT_EQ(pool.waiter_count(), 2);
  pool.Release(20);
  EXPECT_EQ(large.granted, 0);
  EXPECT_EQ(small.granted, 0) << "overtook the first";
  EXPECT_FALSE(pool.TryReserve(10)) << "overtook the waiters";
  pool.Release(60);
  EXPECT_EQ(large.granted, 1);
  EXPECT_EQ(small.granted, 0);
  pool.Release(20);
  EXPECT_EQ(small.granted, 1);
  EXPECT_EQ(pool.waiter_count(), 0);
  EXPECT_EQ(pool.used_bytes(), 90);
  EXPECT_TRUE(pool.TryReserve(10));
  pool.Release(100);
}

TEST(MemoryPoolTest, ACancelledWaiterLetsThoseBehindItPass) {
  MemoryPool pool(100);
  ASSERT_TRUE(pool.TryReserve(50));
  Waiter large(80), small(10);
  pool.Wait(&large);
  pool.Wait(&small);
  EXPECT_EQ(small.granted, 0);
  EXPECT_TRUE(pool.CancelWait(&large));
  EXPECT_EQ(large.granted, 0);
  EXPECT_EQ(small.granted, 1);
  pool.Release(60);
}

TEST(MemoryPoolTest, RefusesAWaiterThatCouldNeverBeServed) {
  MemoryPool pool(100);
  Waiter waiter(101);
  EXPECT_FALSE(pool.Wait(&waiter));
  EXPECT_EQ(pool.waiter_count(), 0);
}

TEST(MemoryPoolTest, NoWaiterIsForgottenUnderRacingThreads) {
  MemoryPool pool(1000);
  std::atomic<int64_t> held{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(t + 1);
      for (int i = 0; i < 5000; ++i) {
        const int64_t bytes = random.Between(1, 700);
        if (!pool.TryReserve(bytes)) {
          Waiter waiter(bytes);
          ASSERT_TRUE(pool.Wait(&waiter));
          if (!random.OneIn(4) || !pool.CancelWait(&waiter)) {
            while (waiter.granted == 0) std::this_thread::yield();
          } else {
            continue;
          }
        }
        ASSERT_LE(held.fetch_add(bytes) + bytes, 1000);
        if (random.OneIn(8)) std::this_thread::yield();
        held.fetch_sub(bytes);
        pool.Release(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(pool.waiter_count(), 0);
}

}  // namespace
}  // namespace gyre
