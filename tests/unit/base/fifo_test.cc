#include "engine/base/fifo.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(FifoTest, ElementsComeOutInTheOrderOfTheirComing) {
  Fifo<int> fifo;
  int pushed = 0;
  int popped = 0;
  // Grows while its front lies anywhere.
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < step % 7; ++i) fifo.PushBack(pushed++);
    for (int i = 0; i < step % 5 && !fifo.empty(); ++i) EXPECT_EQ(fifo.PopFront(), popped++);
    EXPECT_EQ(fifo.size(), static_cast<size_t>(pushed - popped));
    for (size_t i = 0; i < fifo.size(); ++i) EXPECT_EQ(fifo[i], popped + static_cast<int>(i));
  }
  while (!fifo.empty()) EXPECT_EQ(fifo.PopFront(), popped++);
  EXPECT_EQ(popped, pushed);
}

TEST(FifoTest, WhatWasTakenOutIsNotHeld) {
  Fifo<std::shared_ptr<int>> fifo;
  auto element = std::make_shared<int>(1);
  fifo.PushBack(element);
  fifo.PushBack(element);
  EXPECT_EQ(element.use_count(), 3);
  fifo.PopFront();
  EXPECT_EQ(element.use_count(), 2);
  fifo.Clear();
  EXPECT_EQ(element.use_count(), 1);
}

TEST(FifoTest, ReservedRoomKeepsWhatIsThere) {
  Fifo<int> fifo;
  for (int i = 0; i < 5; ++i) fifo.PushBack(i);
  fifo.PopFront();
  fifo.Reserve(100);
  for (int i = 5; i < 90; ++i) fifo.PushBack(i);
  for (int i = 1; i < 90; ++i) EXPECT_EQ(fifo.PopFront(), i);
}

TEST(FifoTest, RemovingLeavesTheOthersInOrder) {
  Fifo<int> fifo;
  for (const int value : {9, 9, 9}) fifo.PushBack(value);
  while (!fifo.empty()) fifo.PopFront();
  for (const int value : {1, 2, 3, 2, 4, 5, 2}) fifo.PushBack(value);
  fifo.Remove(2);
  EXPECT_FALSE(fifo.Contains(2));
  EXPECT_TRUE(fifo.Contains(5));
  std::vector<int> left;
  while (!fifo.empty()) left.push_back(fifo.PopFront());
  EXPECT_EQ(left, (std::vector<int>{1, 3, 4, 5}));
}

}  // namespace
}  // namespace gyre
