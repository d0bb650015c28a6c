#include "engine/concurrent/mpmc_queue.h"

#include <deque>
#include <memory>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(MpmcQueueTest, RoundsItsCapacityUpToAPowerOfTwo) {
  EXPECT_EQ(MpmcQueue<int>(1).capacity(), 2u);
  EXPECT_EQ(MpmcQueue<int>(500).capacity(), 512u);
  EXPECT_EQ(MpmcQueue<int>(512).capacity(), 512u);
}

TEST(MpmcQueueTest, RefusesWhenFullAndWhenEmpty) {
  MpmcQueue<int> queue(4);
  int value = -1;
  EXPECT_FALSE(queue.TryPop(value));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.TryPush(i));
  EXPECT_FALSE(queue.TryPush(4));
  EXPECT_EQ(queue.SizeApprox(), 4u);
  EXPECT_TRUE(queue.TryPop(value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(queue.TryPush(4));
  for (int i = 1; i < 5; ++i) {
    EXPECT_TRUE(queue.TryPop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(queue.TryPop(value));
  EXPECT_EQ(value, 4);
}

TEST(MpmcQueueTest, ARefusedPushLeavesTheValueWithItsOwner) {
  MpmcQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(queue.TryPush(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(*third, 3);
}

TEST(MpmcQueueTest, BehavesAsABoundedDequeInAnySingleThreadedOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    MpmcQueue<uint64_t> queue(8);
    std::deque<uint64_t> oracle;
    for (int step = 0; step < 10'000; ++step) {
      if (random.OneIn(2)) {
        const uint64_t value = random.Next();
        const bool pushed = queue.TryPush(value);
        ASSERT_EQ(pushed, oracle.size() < queue.capacity());
        if (pushed) oracle.push_back(value);
      } else {
        uint64_t value = 0;
        ASSERT_EQ(queue.TryPop(value), !oracle.empty());
        if (oracle.empty()) continue;
        ASSERT_EQ(value, oracle.front());
        oracle.pop_front();
      }
      ASSERT_EQ(queue.SizeApprox(), oracle.size());
    }
  }
}

}  // namespace
}  // namespace gyre
