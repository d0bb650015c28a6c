#include "engine/concurrent/mpsc_queue.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Item : MpscNode {
  int number = 0;
};

TEST(MpscQueueTest, IsFirstInFirstOut) {
  MpscQueue queue;
  std::vector<Item> items(3);
  EXPECT_TRUE(queue.Empty());
  EXPECT_EQ(queue.Pop(), nullptr);
  for (Item& item : items) queue.Push(&item);
  EXPECT_FALSE(queue.Empty());
  for (Item& item : items) EXPECT_EQ(queue.Pop(), &item);
  EXPECT_EQ(queue.Pop(), nullptr);
  EXPECT_TRUE(queue.Empty());
}

TEST(MpscQueueTest, APoppedElementCanBePushedAgainAtOnce) {
  MpscQueue queue;
  Item item;
  for (int i = 0; i < 100; ++i) {
    queue.Push(&item);
    ASSERT_EQ(queue.Pop(), &item);
    ASSERT_TRUE(queue.Empty());
  }
}

TEST(MpscQueueTest, APoppedElementCanBeFreedAtOnce) {
  MpscQueue queue;
  for (int i = 0; i < 100; ++i) {
    auto first = std::make_unique<Item>();
    auto second = std::make_unique<Item>();
    queue.Push(first.get());
    queue.Push(second.get());
    ASSERT_EQ(queue.Pop(), first.get());
    first.reset();
    ASSERT_EQ(queue.Pop(), second.get());
    second.reset();
    ASSERT_EQ(queue.Pop(), nullptr);
  }
}

}  // namespace
}  // namespace gyre
