// Producers and consumers race on one queue; the oracle is what a sequential
// queue would guarantee: nothing lost, nothing twice, each producer in order.
#include <atomic>
#include <thread>
#include <vector>

#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mpmc_queue.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Element {
  uint32_t producer = 0;
  uint32_t sequence = 0;
};

struct Scenario {
  int producers;
  int consumers;
  size_t capacity;
};

class MpmcQueueStressTest : public testing::TestWithParam<Scenario> {};

TEST_P(MpmcQueueStressTest, DeliversEachElementOnceAndEachProducersInOrder) {
  const Scenario scenario = GetParam();
  constexpr uint32_t kPerProducer = 20'000;
  const uint64_t total = uint64_t{kPerProducer} * scenario.producers;
  MpmcQueue<Element> queue(scenario.capacity);
  EventCount not_empty;
  std::atomic<uint64_t> popped{0};
  std::vector<std::vector<Element>> seen(scenario.consumers);
  std::vector<std::thread> threads;
  for (int p = 0; p < scenario.producers; ++p) {
    threads.emplace_back([&, p] {
      for (uint32_t i = 0; i < kPerProducer; ++i) {
        while (!queue.TryPush({static_cast<uint32_t>(p), i})) std::this_thread::yield();
        not_empty.NotifyOne();
      }
    });
  }
  for (int c = 0; c < scenario.consumers; ++c) {
    threads.emplace_back([&, c] {
      const auto take = [&] {
        Element element;
        if (!queue.TryPop(element)) return false;
        seen[c].push_back(element);
        if (popped.fetch_add(1) + 1 == total) not_empty.NotifyAll();
        return true;
      };
      while (popped.load() < total) {
        if (take()) continue;
        const EventCount::Key key = not_empty.PrepareWait();
        if (popped.load() == total || take()) {
          not_empty.CancelWait();
        } else {
          not_empty.CommitWait(key);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<std::vector<int>> times(scenario.producers, std::vector<int>(kPerProducer, 0));
  for (const std::vector<Element>& elements : seen) {
    std::vector<int64_t> last(scenario.producers, -1);
    for (const Element& element : elements) {
      ++times[element.producer][element.sequence];
      ASSERT_GT(element.sequence, last[element.producer]);
      last[element.producer] = element.sequence;
    }
  }
  for (const std::vector<int>& producer : times) {
    for (const int count : producer) ASSERT_EQ(count, 1);
  }
  EXPECT_EQ(queue.SizeApprox(), 0u);
  EXPECT_EQ(not_empty.waiter_count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MpmcQueueStressTest,
                         testing::Values(Scenario{1, 1, 2}, Scenario{1, 1, 1024}, Scenario{4, 1, 8},
                                         Scenario{1, 4, 8}, Scenario{4, 4, 2}, Scenario{4, 4, 256}),
                         [](const auto& info) {
                           return std::to_string(info.param.producers) + "Producers" +
                                  std::to_string(info.param.consumers) + "Consumers" +
                                  std::to_string(info.param.capacity) + "Cells";
                         });

}  // namespace
}  // namespace gyre
