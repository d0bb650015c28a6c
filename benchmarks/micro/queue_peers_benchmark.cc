// How many elements a second pass through MpmcQueue, beside boost::lockfree::queue and
// moodycamel::ConcurrentQueue without tokens (which keeps no order between producers)? Half of
// the threads push, half pop: threads:2 is 1x1, threads:4 is 2x2, threads:8 is 4x4. Items are
// counted by the poppers.
#include <concurrentqueue/concurrentqueue.h>
#include <sched.h>

#include <boost/lockfree/queue.hpp>

#include "benchmark/benchmark.h"
#include "engine/concurrent/mpmc_queue.h"

namespace gyre {
namespace {

constexpr size_t kCapacity = 512;

struct Ours {
  bool TryPush(void* value) { return queue.TryPush(value); }
  bool TryPop(void*& value) { return queue.TryPop(value); }
  MpmcQueue<void*> queue{kCapacity};
};

struct Boost {
  bool TryPush(void* value) { return queue.bounded_push(value); }
  bool TryPop(void*& value) { return queue.pop(value); }
  boost::lockfree::queue<void*, boost::lockfree::capacity<kCapacity>> queue;
};

struct Moodycamel {
  // Its bound is in blocks for each producer; room for four of them, as memory it need not
  // allocate while it is measured.
  bool TryPush(void* value) { return queue.try_enqueue(value); }
  bool TryPop(void*& value) { return queue.try_dequeue(value); }
  moodycamel::ConcurrentQueue<void*> queue{kCapacity, 0, 4};
};

// Full or empty: look again a few times, then let the other side run, which may share the core.
template <typename Try>
void Insist(Try attempt) {
  for (int failures = 0; !attempt();) {
    if (++failures % 64 == 0) {
      sched_yield();
    } else {
      __builtin_ia32_pause();
    }
  }
}

template <typename Queue>
void BM_PushPop(benchmark::State& state) {
  static Queue queue;
  void* value = &queue;
  if (state.thread_index() % 2 == 0) {
    for (auto _ : state) Insist([&] { return queue.TryPush(value); });
  } else {
    for (auto _ : state) Insist([&] { return queue.TryPop(value); });
    state.SetItemsProcessed(state.iterations());
  }
}

BENCHMARK_TEMPLATE(BM_PushPop, Ours)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();
BENCHMARK_TEMPLATE(BM_PushPop, Boost)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();
BENCHMARK_TEMPLATE(BM_PushPop, Moodycamel)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();

}  // namespace
}  // namespace gyre

BENCHMARK_MAIN();
