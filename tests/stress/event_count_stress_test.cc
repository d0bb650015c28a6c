// Tokens pass through a bare counter; consumers sleep on the event count
// without a time limit, so one lost wake-up hangs the test.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/random.h"
#include "engine/concurrent/event_count.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

bool TakeToken(std::atomic<int>& tokens) {
  int left = tokens.load(std::memory_order_acquire);
  while (left > 0) {
    if (tokens.compare_exchange_weak(left, left - 1)) return true;
  }
  return false;
}

TEST(EventCountStressTest, EveryTokenIsTakenWithoutALostWakeUp) {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 4;
  constexpr int kPerProducer = 30'000;
  constexpr int kTotal = kProducers * kPerProducer;
  std::atomic<int> tokens{0};
  std::atomic<int> taken{0};
  EventCount event;
  std::vector<std::thread> threads;
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      Random random(c + 1);
      while (taken.load() < kTotal) {
        if (TakeToken(tokens)) {
          if (taken.fetch_add(1) + 1 == kTotal) event.NotifyAll();
          continue;
        }
        const EventCount::Key key = event.PrepareWait();
        // Sometimes gives up, so that cancelled waiters take signals along.
        if (tokens.load() > 0 || taken.load() == kTotal || random.OneIn(8)) {
          event.CancelWait();
        } else {
          event.CommitWait(key, random.OneIn(16) ? 1000 : -1);
        }
      }
    });
  }
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      // Tells of each, or of several at once.
      Random random(100 + p);
      for (int made = 0; made < kPerProducer;) {
        const int batch = std::min<int>(kPerProducer - made, 1 + static_cast<int>(random.Below(5)));
        for (int i = 0; i < batch; ++i) tokens.fetch_add(1, std::memory_order_release);
        event.Notify(static_cast<uint32_t>(batch));
        made += batch;
        if (made % 64 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), kTotal);
  EXPECT_EQ(event.waiter_count(), 0u);
}

}  // namespace
}  // namespace gyre
