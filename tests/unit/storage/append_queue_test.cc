#include "engine/storage/append_queue.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(AppendQueueTest, TheFirstPushMakesAWriterAndTheOthersLeave) {
  AppendQueue queue;
  AppendRequest requests[3];
  EXPECT_TRUE(queue.Push(&requests[0]));
  EXPECT_FALSE(queue.Push(&requests[1]));
  EXPECT_FALSE(queue.Push(&requests[2]));
}

TEST(AppendQueueTest, EverythingComesOutOldestFirst) {
  AppendQueue queue;
  AppendRequest requests[3];
  for (AppendRequest& request : requests) queue.Push(&request);
  AppendRequest* list = queue.TakeAll();
  for (AppendRequest& request : requests) {
    EXPECT_EQ(list, &request);
    list = list->next;
  }
  EXPECT_EQ(list, nullptr);
}

TEST(AppendQueueTest, AWriterStaysTheWriterUntilItTakesNothing) {
  AppendQueue queue;
  AppendRequest requests[3];
  EXPECT_TRUE(queue.Push(&requests[0]));
  EXPECT_EQ(queue.TakeAll(), &requests[0]);
  EXPECT_FALSE(queue.Push(&requests[1]));
  EXPECT_EQ(queue.TakeAll(), &requests[1]);
  EXPECT_EQ(requests[1].next, nullptr);
  EXPECT_EQ(queue.TakeAll(), nullptr);
  EXPECT_TRUE(queue.Push(&requests[2]));
}

// One writer at a time, each request once, in each thread's order.
TEST(AppendQueueTest, ThreadsNeverWriteAtTheSameTimeAndLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kPushes = 20000;
  AppendQueue queue;
  std::vector<std::vector<AppendRequest>> requests(kThreads);
  std::atomic<int> writers{0};
  // Written by whoever is the writer: the queue orders them.
  std::vector<int64_t> last(kThreads, -1);
  int64_t written_count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) requests[t] = std::vector<AppendRequest>(kPushes);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPushes; ++i) {
        AppendRequest& request = requests[t][i];
        request.base_offset = i;
        request.leader_epoch = t;
        if (!queue.Push(&request)) continue;
        EXPECT_EQ(writers.fetch_add(1), 0);
        while (true) {
          // Released by the queue, so counted before.
          writers.fetch_sub(1);
          AppendRequest* list = queue.TakeAll();
          if (list == nullptr) break;
          EXPECT_EQ(writers.fetch_add(1), 0);
          for (; list != nullptr; list = list->next) {
            EXPECT_LT(last[list->leader_epoch], list->base_offset);
            last[list->leader_epoch] = list->base_offset;
            ++written_count;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written_count, int64_t{kThreads} * kPushes);
}

}  // namespace
}  // namespace gyre
