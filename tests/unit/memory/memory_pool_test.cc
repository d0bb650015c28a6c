#include "engine/memory/memory_pool.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr MemoryUse kWhole = MemoryUse::kWhole;
constexpr MemoryUse kPartial = MemoryUse::kPartial;

struct Waiter : MemoryWaiter {
  explicit Waiter(int64_t wanted_bytes, MemoryUse wanted_use = kWhole) {
    bytes = wanted_bytes;
    use = wanted_use;
    on_granted = [](MemoryWaiter* waiter) { static_cast<Waiter*>(waiter)->granted.fetch_add(1); };
  }
  std::atomic<int> granted{0};
};

TEST(MemoryPoolTest, TheCapacityIsAStrictBound) {
  MemoryPool pool(100);
  EXPECT_TRUE(pool.TryReserve(60, kWhole));
  EXPECT_FALSE(pool.TryReserve(41, kWhole));
  EXPECT_TRUE(pool.TryReserve(40, kWhole));
  EXPECT_FALSE(pool.TryReserve(1, kWhole));
  EXPECT_EQ(pool.used_bytes(), 100);
  pool.Release(100, kWhole);
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(MemoryPoolTest, AnUnboundedPoolCountsOnly) {
  MemoryPool pool(MemoryPool::kUnbounded);
  EXPECT_TRUE(pool.TryReserve(int64_t{1} << 60, kWhole));
  EXPECT_TRUE(pool.TryReserve(int64_t{1} << 60, kWhole));
  EXPECT_EQ(pool.used_bytes(), int64_t{1} << 61);
  pool.Release(int64_t{1} << 61, kWhole);
}

TEST(MemoryPoolTest, AWaiterThatFitsIsGrantedAtOnce) {
  MemoryPool pool(100);
  Waiter waiter(100);
  EXPECT_TRUE(pool.Wait(&waiter));
  EXPECT_EQ(waiter.granted, 1);
  EXPECT_EQ(pool.used_bytes(), 100);
  EXPECT_FALSE(pool.CancelWait(&waiter));
  pool.Release(100, kWhole);
}

TEST(MemoryPoolTest, WaitersAreServedInOrderAsBytesReturn) {
  MemoryPool pool(100);
  ASSERT_TRUE(pool.TryReserve(100, kWhole));
  Waiter large(80), small(10);
  EXPECT_TRUE(pool.Wait(&large));
  EXPECT_TRUE(pool.Wait(&small));
  EXPECT_EQ(pool.waiter_count(), 2);
  pool.Release(20, kWhole);
  EXPECT_EQ(large.granted, 0);
  EXPECT_EQ(small.granted, 0) << "overtook the first";
  EXPECT_FALSE(pool.TryReserve(10, kWhole)) << "overtook the waiters";
  pool.Release(60, kWhole);
  EXPECT_EQ(large.granted, 1);
  EXPECT_EQ(small.granted, 0);
  pool.Release(20, kWhole);
  EXPECT_EQ(small.granted, 1);
  EXPECT_EQ(pool.waiter_count(), 0);
  EXPECT_EQ(pool.used_bytes(), 90);
  EXPECT_TRUE(pool.TryReserve(10, kWhole));
  pool.Release(100, kWhole);
}

TEST(MemoryPoolTest, ACancelledWaiterLetsThoseBehindItPass) {
  MemoryPool pool(100);
  ASSERT_TRUE(pool.TryReserve(50, kWhole));
  Waiter large(80), small(10);
  pool.Wait(&large);
  pool.Wait(&small);
  EXPECT_EQ(small.granted, 0);
  EXPECT_TRUE(pool.CancelWait(&large));
  EXPECT_EQ(large.granted, 0);
  EXPECT_EQ(small.granted, 1);
  pool.Release(60, kWhole);
}

TEST(MemoryPoolTest, RefusesAWaiterThatCouldNeverBeServed) {
  MemoryPool pool(100);
  Waiter waiter(101);
  EXPECT_FALSE(pool.Wait(&waiter));
  EXPECT_EQ(pool.waiter_count(), 0);
}

TEST(MemoryPoolTest, PartialRequestsGetTheirShareAndNoMore) {
  MemoryPool pool(800);
  EXPECT_EQ(pool.partial_capacity_bytes(), 700);
  EXPECT_TRUE(pool.TryReserve(700, kPartial));
  EXPECT_FALSE(pool.TryReserve(1, kPartial));
  EXPECT_EQ(pool.used_bytes(), 700) << "a refusal left something behind";
  EXPECT_TRUE(pool.TryReserve(100, kWhole));
  pool.MakeWhole(700);
  EXPECT_EQ(pool.partial_bytes(), 0);
  EXPECT_EQ(pool.used_bytes(), 800);
  pool.Release(800, kWhole);
}

TEST(MemoryPoolTest, ALargestRequestCanComeInHoweverMuchItIs) {
  MemoryPool pool(800, 790);
  EXPECT_EQ(pool.partial_capacity_bytes(), 790);
  EXPECT_EQ(MemoryPool(800, 5000).partial_capacity_bytes(), 800);
}

TEST(MemoryPoolTest, WholeRequestsNeverWaitBehindPartialOnes) {
  MemoryPool pool(800);
  ASSERT_TRUE(pool.TryReserve(650, kPartial));
  Waiter partial(60, kPartial);
  ASSERT_TRUE(pool.Wait(&partial));
  EXPECT_EQ(partial.granted, 0);
  EXPECT_FALSE(pool.TryReserve(10, kPartial)) << "overtook one of its own kind";
  EXPECT_TRUE(pool.TryReserve(100, kWhole));
  Waiter whole(100, kWhole);
  ASSERT_TRUE(pool.Wait(&whole));
  EXPECT_EQ(whole.granted, 0);
  // Bytes that come back are theirs first, whoever held them.
  pool.Release(60, kPartial);
  EXPECT_EQ(whole.granted, 1);
  EXPECT_EQ(partial.granted, 0);
  pool.Release(100, kWhole);
  EXPECT_EQ(partial.granted, 1);
  pool.Release(650, kPartial);
  pool.Release(100, kWhole);
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(pool.partial_bytes(), 0);
}

TEST(MemoryPoolTest, AStreamOfWholeRequestsDoesNotStarveAPartialOne) {
  MemoryPool pool(800);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(pool.TryReserve(100, kWhole));
  Waiter partial(150, kPartial);
  ASSERT_TRUE(pool.Wait(&partial));
  // Each that is answered is followed by another.
  int taken = 0;
  for (int i = 0; i < 100 && partial.granted == 0; ++i) {
    pool.Release(100, kWhole);
    if (pool.TryReserve(100, kWhole)) ++taken;
  }
  EXPECT_EQ(partial.granted, 1);
  EXPECT_LE(taken, 8) << "more than the capacity passed it by";
  EXPECT_TRUE(pool.TryReserve(50, kWhole)) << "its turn is over";
  pool.Release(150, kPartial);
  pool.Release(650, kWhole);
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(MemoryPoolTest, OnePartialThatDoesNotFitItsShareHoldsNoWholeOneUp) {
  MemoryPool pool(800);
  ASSERT_TRUE(pool.TryReserve(700, kPartial));
  Waiter partial(100, kPartial);
  ASSERT_TRUE(pool.Wait(&partial));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pool.TryReserve(100, kWhole)) << i;
    pool.Release(100, kWhole);
  }
  EXPECT_EQ(partial.granted, 0);
  pool.MakeWhole(100);
  EXPECT_EQ(partial.granted, 1) << "the share was free and nobody said so";
  pool.Release(700, kPartial);
  pool.Release(100, kWhole);
}

TEST(MemoryPoolTest, SaysWhetherPartialRequestsHoldWhatOthersWaitFor) {
  MemoryPool pool(800);
  ASSERT_TRUE(pool.TryReserve(800, kWhole));
  Waiter partial(100, kPartial);
  ASSERT_TRUE(pool.Wait(&partial));
  EXPECT_FALSE(pool.WaitsForPartials()) << "requests that are answered will do";
  EXPECT_TRUE(pool.CancelWait(&partial));
  pool.Release(800, kWhole);

  ASSERT_TRUE(pool.TryReserve(650, kPartial));
  EXPECT_FALSE(pool.WaitsForPartials()) << "nobody waits";
  ASSERT_TRUE(pool.Wait(&partial));
  EXPECT_TRUE(pool.WaitsForPartials());
  EXPECT_TRUE(pool.CancelWait(&partial));
  Waiter whole(200, kWhole);
  ASSERT_TRUE(pool.Wait(&whole));
  EXPECT_TRUE(pool.WaitsForPartials());
  pool.Release(650, kPartial);
  EXPECT_EQ(whole.granted, 1);
  pool.Release(200, kWhole);
}

// What the pool promises, said plainly, beside what it does with every order of calls
// that a seed draws.
TEST(MemoryPoolTest, RandomOperationsKeepTheInvariants) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int64_t capacity = random.Between(8, 400);
    MemoryPool pool(capacity);
    std::vector<std::unique_ptr<Waiter>> waiting;
    std::vector<std::pair<int64_t, MemoryUse>> held;
    int64_t used = 0;
    int64_t partial = 0;
    const auto hold = [&](int64_t bytes, MemoryUse use) {
      held.emplace_back(bytes, use);
      used += bytes;
      if (use == kPartial) partial += bytes;
    };
    for (int step = 0; step < 300; ++step) {
      const auto use = random.OneIn(2) ? kWhole : kPartial;
      switch (random.Below(4)) {
        case 0: {
          const int64_t bytes = random.Between(1, capacity / 2);
          if (pool.TryReserve(bytes, use)) {
            hold(bytes, use);
          } else {
            waiting.push_back(std::make_unique<Waiter>(bytes, use));
            ASSERT_TRUE(pool.Wait(waiting.back().get()));
          }
          break;
        }
        case 1:
        case 2:
          if (!held.empty()) {
            const size_t index = random.Below(held.size());
            const auto [bytes, held_as] = held[index];
            held.erase(held.begin() + static_cast<ptrdiff_t>(index));
            if (held_as == kPartial) partial -= bytes;
            if (held_as == kPartial && random.OneIn(2)) {
              pool.MakeWhole(bytes);
              held.emplace_back(bytes, kWhole);
            } else {
              used -= bytes;
              pool.Release(bytes, held_as);
            }
          }
          break;
        case 3:
          if (!waiting.empty() && random.OneIn(3)) {
            const size_t index = random.Below(waiting.size());
            if (pool.CancelWait(waiting[index].get())) {
              ASSERT_EQ(waiting[index]->granted, 0);
              waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(index));
            }
          }
          break;
      }
      // Grants, by kind in the order in which they came.
      bool earlier_waits[2] = {false, false};
      for (auto it = waiting.begin(); it != waiting.end();) {
        Waiter& waiter = **it;
        bool& earlier = earlier_waits[waiter.use == kWhole ? 0 : 1];
        if (waiter.granted == 0) {
          earlier = true;
          ++it;
          continue;
        }
        ASSERT_EQ(waiter.granted, 1);
        ASSERT_FALSE(earlier) << "out of turn, seed " << seed;
        hold(waiter.bytes, waiter.use);
        it = waiting.erase(it);
      }
      ASSERT_EQ(pool.used_bytes(), used);
      ASSERT_EQ(pool.partial_bytes(), partial);
      ASSERT_LE(used, capacity);
      ASSERT_LE(partial, pool.partial_capacity_bytes());
      ASSERT_EQ(pool.waiter_count(), static_cast<int64_t>(waiting.size()));
      // The first whole one waits for want of bytes alone, or because it is a partial
      // one's turn, which wants bytes too.
      for (const auto& waiter : waiting) {
        if (waiter->use != kWhole) continue;
        bool partial_wants = false;
        for (const auto& other : waiting) {
          if (other->use == kPartial) partial_wants = other->bytes > capacity - used;
          if (other->use == kPartial) break;
        }
        ASSERT_TRUE(waiter->bytes > capacity - used || partial_wants) << "seed " << seed;
        break;
      }
    }
    // Everybody is served in the end.
    while (!held.empty() || !waiting.empty()) {
      ASSERT_FALSE(held.empty()) << "left behind, seed " << seed;
      const auto [bytes, held_as] = held.back();
      held.pop_back();
      pool.Release(bytes, held_as);
      for (auto it = waiting.begin(); it != waiting.end();) {
        if ((*it)->granted == 0) {
          ++it;
          continue;
        }
        held.emplace_back((*it)->bytes, (*it)->use);
        it = waiting.erase(it);
      }
    }
    ASSERT_EQ(pool.used_bytes(), 0);
    ASSERT_EQ(pool.partial_bytes(), 0);
    ASSERT_EQ(pool.waiter_count(), 0);
  }
}

TEST(MemoryPoolTest, NoWaiterIsForgottenUnderRacingThreads) {
  MemoryPool pool(1000);
  std::atomic<int64_t> held{0};
  std::atomic<int64_t> held_partial{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(t + 1);
      for (int i = 0; i < 5000; ++i) {
        const int64_t bytes = random.Between(1, 700);
        const MemoryUse use = random.OneIn(2) ? kWhole : kPartial;
        if (!pool.TryReserve(bytes, use)) {
          Waiter waiter(bytes, use);
          ASSERT_TRUE(pool.Wait(&waiter));
          if (!random.OneIn(4) || !pool.CancelWait(&waiter)) {
            while (waiter.granted == 0) std::this_thread::yield();
          } else {
            continue;
          }
        }
        ASSERT_LE(held.fetch_add(bytes) + bytes, 1000);
        MemoryUse held_as = use;
        if (use == kPartial) {
          ASSERT_LE(held_partial.fetch_add(bytes) + bytes, pool.partial_capacity_bytes());
          if (random.OneIn(8)) std::this_thread::yield();
          held_partial.fetch_sub(bytes);
          if (random.OneIn(2)) {
            pool.MakeWhole(bytes);
            held_as = kWhole;
          }
        }
        if (random.OneIn(8)) std::this_thread::yield();
        held.fetch_sub(bytes);
        pool.Release(bytes, held_as);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(pool.partial_bytes(), 0);
  EXPECT_EQ(pool.waiter_count(), 0);
}

}  // namespace
}  // namespace gyre
