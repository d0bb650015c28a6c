// How many times cheaper is handing an element over through MpmcQueue than through a locked deque?
#include <deque>

#include "benchmark/benchmark.h"
#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mpmc_queue.h"
#include "engine/concurrent/mutex.h"

namespace gyre {
namespace {

constexpr size_t kCapacity = 512;

class LockedDeque {
 public:
  bool TryPush(void* value) {
    MutexLock lock(mutex_);
    if (elements_.size() == kCapacity) return false;
    elements_.push_back(value);
    return true;
  }
  bool TryPop(void*& value) {
    MutexLock lock(mutex_);
    if (elements_.empty()) return false;
    value = elements_.front();
    elements_.pop_front();
    return true;
  }

 private:
  Mutex mutex_;
  std::deque<void*> elements_ ABSL_GUARDED_BY(mutex_);
};

LockedDeque locked_deque;
MpmcQueue<void*> mpmc_queue(kCapacity);

// Each thread pushes one and pops one, so that the queue neither fills nor
// drains; with two threads both ends are contended.
template <typename Queue>
void PushAndPop(benchmark::State& state, Queue& queue) {
  void* value = &state;
  for (auto _ : state) {
    while (!queue.TryPush(value)) {
    }
    while (!queue.TryPop(value)) {
    }
  }
  state.SetItemsProcessed(state.iterations());
}

// Baseline.
void BM_LockedDeque(benchmark::State& state) { PushAndPop(state, locked_deque); }
void BM_MpmcQueue(benchmark::State& state) { PushAndPop(state, mpmc_queue); }

// What the producer pays for telling sleepers when there are none.
void BM_NotifyWithoutWaiters(benchmark::State& state) {
  EventCount event;
  for (auto _ : state) event.NotifyOne();
}

BENCHMARK(BM_LockedDeque)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_MpmcQueue)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_NotifyWithoutWaiters);

}  // namespace
}  // namespace gyre

BENCHMARK_MAIN();
