// Handlers, the timer thread and racing events on the same operations: each
// completes exactly once, no completion is lost (an operation without a
// deadline would then wait for ever), nothing leaks.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/purgatory/delayed_operation_purgatory.h"
#include "engine/timer/timer.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

// Several handlers on one lane, as the request channel's.
class Lane : public ContinuationLane, public ThreadBody {
 public:
  void Post(Continuation* continuation) override {
    queue_.Push(continuation);
    event.NotifyOne();
  }
  bool RunOnce(int64_t now_ns) override {
    MpscNode* node;
    {
      MutexLock lock(mutex_);
      node = queue_.Pop();
    }
    if (node == nullptr) return false;
    auto* continuation = static_cast<Continuation*>(node);
    continuation->run(continuation);
    return true;
  }
  EventCount event;

 private:
  Mutex mutex_;  // makes of many handlers one consumer
  MpscQueue queue_;
};

constexpr int kKeyCount = 16;

struct Counters {
  std::atomic<int> completed{0};
  std::atomic<int> expired{0};
  std::atomic<int> dropped{0};
  std::atomic<int> alive{0};
};

// Waits until each of its keys' event counts has reached a target.
class EventsReached : public DelayedOperation {
 public:
  EventsReached(Counters* counters, const std::atomic<int>* events, std::vector<int> keys,
                int target, int64_t timeout_ms)
      : DelayedOperation(timeout_ms),
        counters_(counters),
        events_(events),
        keys_(std::move(keys)),
        target_(target) {
    counters_->alive.fetch_add(1);
  }

 protected:
  ~EventsReached() override { counters_->alive.fetch_sub(1); }
  bool TryComplete() override {
    // Not atomic on purpose: two turns at once would be a data race.
    ++tries_;
    for (const int key : keys_) {
      if (events_[key].load(std::memory_order_relaxed) < target_) return false;
    }
    return ForceComplete();
  }
  void OnComplete() override {
    EXPECT_EQ(++completions_, 1);
    counters_->completed.fetch_add(1);
  }
  void OnExpiration() override { counters_->expired.fetch_add(1); }
  void OnDrop() override { counters_->dropped.fetch_add(1); }

 private:
  Counters* counters_;
  const std::atomic<int>* events_;
  const std::vector<int> keys_;
  const int target_;
  int tries_ = 0;
  int completions_ = 0;
};

struct Harness {
  Harness() : purgatory(Clock::Real(), timer, lane) {
    for (int i = 0; i < 3; ++i) {
      handlers.push_back(
          std::make_unique<ThreadRunner>("handler", lane, lane.event, Clock::Real()));
      EXPECT_TRUE(handlers.back()->Start().ok());
    }
    EXPECT_TRUE(timer_thread.Start().ok());
  }
  ~Harness() { StopThreads(); }
  void StopThreads() {
    timer_thread.Stop();
    for (auto& handler : handlers) handler->Stop();
    // Whoever owns the lane empties it, or references stay behind.
    while (lane.RunOnce(0)) {
    }
  }

  Timer timer{Clock::Real()};
  Lane lane;
  DelayedOperationPurgatory purgatory;
  std::vector<std::unique_ptr<ThreadRunner>> handlers;
  ThreadRunner timer_thread{"timer", timer, timer.wakeup(), Clock::Real()};
};

TEST(PurgatoryStressTest, EveryOperationCompletesOnceWhateverRaces) {
  constexpr int kSubmitters = 3;
  constexpr int kOperations = 1500;
  constexpr int kTargetMax = 300;
  Counters counters;
  std::atomic<int> events[kKeyCount] = {};
  Harness harness;
  std::vector<std::thread> threads;
  for (int s = 0; s < kSubmitters; ++s) {
    threads.emplace_back([&, s] {
      Random random(s + 1);
      for (int i = 0; i < kOperations; ++i) {
        std::vector<int> keys;
        std::vector<WatchKey> watch;
        for (uint64_t k = 0; k <= random.Below(4); ++k) {
          keys.push_back(static_cast<int>(random.Below(kKeyCount)));
          watch.push_back({1, static_cast<uint64_t>(keys.back())});
        }
        // Half of them have no deadline: only events can end them.
        const int64_t timeout_ms = random.OneIn(2) ? random.Between(0, 5) : -1;
        harness.purgatory.TryCompleteElseWatch(
            MakeRef<EventsReached>(&counters, events, keys,
                                   static_cast<int>(random.Between(1, kTargetMax)), timeout_ms),
            watch);
      }
    });
  }
  for (int e = 0; e < 2; ++e) {
    threads.emplace_back([&, e] {
      Random random(100 + e);
      for (int i = 0; i < kTargetMax; ++i) {
        for (int key = e; key < kKeyCount; key += 2) {
          // Relaxed: CheckAndComplete makes it visible.
          events[key].fetch_add(1, std::memory_order_relaxed);
          harness.purgatory.CheckAndComplete({1, static_cast<uint64_t>(key)});
          if (random.OneIn(16)) std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int64_t give_up_ns = Clock::Real().NowNs() + 60'000'000'000;
  while (counters.completed < kSubmitters * kOperations && Clock::Real().NowNs() < give_up_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(counters.completed, kSubmitters * kOperations);
  harness.StopThreads();
  EXPECT_EQ(harness.purgatory.pending_count(), 0);
  EXPECT_EQ(harness.purgatory.watched_count(), 0);
  EXPECT_EQ(harness.purgatory.key_count(), 0);
  EXPECT_EQ(harness.timer.size(), 0u);
  EXPECT_EQ(counters.alive, 0);
  EXPECT_EQ(counters.dropped, 0);
}

class Locking : public EventsReached {
 public:
  Locking(Mutex* mutex, Counters* counters, const std::atomic<int>* events)
      : EventsReached(counters, events, {0}, 500, -1), mutex_(mutex) {}

 protected:
  bool TryComplete() override {
    MutexLock lock(*mutex_);
    return EventsReached::TryComplete();
  }

 private:
  Mutex* mutex_;
};

// Operations that take a lock in their turns, and events reported by threads
// that hold it: reporting runs nobody's turn, so no lock order can arise.
TEST(PurgatoryStressTest, EventsMayBeReportedUnderALockThatCompletionsTake) {
  Counters counters;
  std::atomic<int> events[kKeyCount] = {};
  Mutex partition_lock;
  Harness harness;
  std::thread submitter([&] {
    for (int i = 0; i < 500; ++i) {
      harness.purgatory.TryCompleteElseWatch(MakeRef<Locking>(&partition_lock, &counters, events),
                                             {{1, 0}});
    }
  });
  std::thread reporter([&] {
    for (int i = 0; i < 500; ++i) {
      MutexLock lock(partition_lock);
      events[0].fetch_add(1);
      harness.purgatory.CheckAndComplete({1, 0});
    }
  });
  submitter.join();
  reporter.join();
  while (counters.completed < 500) std::this_thread::yield();
  harness.StopThreads();
  EXPECT_EQ(counters.alive, 0);
}

TEST(PurgatoryStressTest, AShutdownInTheMiddleLeavesNothingBehind) {
  for (int round = 0; round < 20; ++round) {
    Counters counters;
    std::atomic<int> events[kKeyCount] = {};
    constexpr int kOperations = 400;
    Harness harness;
    std::atomic<bool> started{false};
    std::thread submitter([&] {
      for (int i = 0; i < kOperations; ++i) {
        if (i == kOperations / 8) started.store(true);
        const int key = i % kKeyCount;
        harness.purgatory.TryCompleteElseWatch(
            MakeRef<EventsReached>(&counters, events, std::vector<int>{key}, i % 30, i % 5),
            {{1, static_cast<uint64_t>(key)}, {2, 7}});
      }
    });
    std::thread reporter([&] {
      for (int i = 0; i < 200; ++i) {
        events[i % kKeyCount].fetch_add(1, std::memory_order_relaxed);
        harness.purgatory.CheckAndComplete({1, static_cast<uint64_t>(i % kKeyCount)});
      }
    });
    while (!started.load()) std::this_thread::yield();
    harness.purgatory.Shutdown();
    submitter.join();
    reporter.join();
    harness.StopThreads();
    EXPECT_EQ(counters.completed + counters.dropped, kOperations);
    EXPECT_EQ(counters.alive, 0);
    EXPECT_EQ(harness.timer.size(), 0u);
    EXPECT_EQ(harness.purgatory.pending_count(), 0);
    EXPECT_EQ(harness.purgatory.watched_count(), 0);
  }
}

}  // namespace
}  // namespace gyre
