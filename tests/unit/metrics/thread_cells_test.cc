#include "engine/metrics/thread_cells.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(ThreadCellsTest, SumsOverThreadsAlsoThoseThatEnded) {
  ThreadCells cells(16);
  const uint32_t first = cells.Allocate(2);
  EXPECT_EQ(cells.Sum(first), 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        cells.Add(first, 1);
        cells.Add(first + 1, -2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cells.Sum(first), 80'000);
  EXPECT_EQ(cells.Sum(first + 1), -160'000);
}

TEST(ThreadCellsTest, LiveThreadsHaveDifferentSlots) {
  const int mine = ThreadCells::CurrentSlot();
  EXPECT_EQ(ThreadCells::CurrentSlot(), mine);
  int other = -1;
  std::thread([&] { other = ThreadCells::CurrentSlot(); }).join();
  EXPECT_NE(other, mine);
  // An ended thread's slot is used again.
  int next = -1;
  std::thread([&] { next = ThreadCells::CurrentSlot(); }).join();
  EXPECT_EQ(next, other);
}

TEST(ThreadCellsTest, ThreadsBeyondTheSlotsShareOneAndLoseNothing) {
  ThreadCells cells(16);
  const uint32_t cell = cells.Allocate(1);
  constexpr int kThreads = ThreadCells::kMaxThreads + 20;
  std::atomic<int> ready{0};
  std::atomic<int> shared{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      if (ThreadCells::CurrentSlot() == ThreadCells::kSharedSlot) shared.fetch_add(1);
      ready.fetch_add(1);
      while (ready.load() < kThreads) std::this_thread::yield();
      for (int i = 0; i < 500; ++i) cells.Add(cell, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(shared.load(), 20);
  EXPECT_EQ(cells.Sum(cell), kThreads * 500);
}

TEST(ThreadCellsTest, CanBeReadWhileOthersAdd) {
  ThreadCells cells(16);
  const uint32_t cell = cells.Allocate(1);
  std::thread writer([&] {
    for (int i = 0; i < 200'000; ++i) cells.Add(cell, 1);
  });
  int64_t last = 0;
  while (last < 200'000) {
    const int64_t sum = cells.Sum(cell);
    ASSERT_GE(sum, last);
    last = sum;
  }
  writer.join();
}

TEST(ThreadCellsDeathTest, MoreThanItsCapacityIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ThreadCells cells(4);
  cells.Allocate(3);
  EXPECT_DEATH(cells.Allocate(2), "more metrics than");
}

}  // namespace
}  // namespace gyre
