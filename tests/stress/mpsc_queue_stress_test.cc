// Many producers, one consumer that sleeps when the queue is empty: nothing
// lost, nothing twice, each producer in order, and no wake-up missed.
#include <memory>
#include <thread>
#include <vector>

#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mpsc_queue.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Item : MpscNode {
  int producer = 0;
  int sequence = 0;
};

TEST(MpscQueueStressTest, DeliversEachElementOnceAndEachProducersInOrder) {
  constexpr int kProducers = 4;
  constexpr int kPerProducer = 50'000;
  MpscQueue queue;
  EventCount event;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kPerProducer; ++i) {
        auto* item = new Item;
        item->producer = p;
        item->sequence = i;
        queue.Push(item);
        event.NotifyOne();
      }
    });
  }
  std::vector<int> next(kProducers, 0);
  for (int received = 0; received < kProducers * kPerProducer;) {
    MpscNode* node = queue.Pop();
    if (node == nullptr) {
      const EventCount::Key key = event.PrepareWait();
      if (queue.Empty()) {
        event.CommitWait(key);
      } else {
        event.CancelWait();
      }
      continue;
    }
    std::unique_ptr<Item> item(static_cast<Item*>(node));
    ASSERT_EQ(item->sequence, next[item->producer]);
    ++next[item->producer];
    ++received;
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(queue.Empty());
  EXPECT_EQ(queue.Pop(), nullptr);
}

}  // namespace
}  // namespace gyre
