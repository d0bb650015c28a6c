// How many times cheaper is adding and cancelling a timeout in the timing wheel than in std::set?
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/timer/timing_wheel.h"

namespace gyre {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kMaxDelayNs = 30'000 * kMs;

struct Timeouts {
  explicit Timeouts(int64_t count) : entries(count) {
    Random random(1);
    for (TimerEntry& entry : entries) entry.deadline_ns = random.Between(kMs, kMaxDelayNs);
  }
  std::vector<TimerEntry> entries;
  size_t next = 0;
};

// `range(0)` timeouts are pending all the time; each step cancels one (the
// answer came) and adds it again.
// Baseline.
void BM_SetAddCancel(benchmark::State& state) {
  Timeouts timeouts(state.range(0));
  std::set<std::pair<int64_t, TimerEntry*>> set;
  for (TimerEntry& entry : timeouts.entries) set.emplace(entry.deadline_ns, &entry);
  for (auto _ : state) {
    TimerEntry& entry = timeouts.entries[timeouts.next];
    if (++timeouts.next == timeouts.entries.size()) timeouts.next = 0;
    set.erase({entry.deadline_ns, &entry});
    set.emplace(entry.deadline_ns, &entry);
  }
}

void BM_WheelAddCancel(benchmark::State& state) {
  Timeouts timeouts(state.range(0));
  TimingWheel wheel(0);
  for (TimerEntry& entry : timeouts.entries) wheel.Add(&entry);
  for (auto _ : state) {
    TimerEntry& entry = timeouts.entries[timeouts.next];
    if (++timeouts.next == timeouts.entries.size()) timeouts.next = 0;
    wheel.Cancel(&entry);
    wheel.Add(&entry);
  }
}

// Time passes in steps of 1 ms; what expires is added again. Time per step.
void BM_SetExpire(benchmark::State& state) {
  Timeouts timeouts(state.range(0));
  std::set<std::pair<int64_t, TimerEntry*>> set;
  for (TimerEntry& entry : timeouts.entries) set.emplace(entry.deadline_ns, &entry);
  int64_t now_ns = 0;
  for (auto _ : state) {
    now_ns += kMs;
    while (set.begin()->first <= now_ns) {
      TimerEntry* entry = set.begin()->second;
      set.erase(set.begin());
      entry->deadline_ns += kMaxDelayNs;
      set.emplace(entry->deadline_ns, entry);
    }
  }
}

void BM_WheelExpire(benchmark::State& state) {
  Timeouts timeouts(state.range(0));
  TimingWheel wheel(0);
  for (TimerEntry& entry : timeouts.entries) wheel.Add(&entry);
  int64_t now_ns = 0;
  TimerList expired;
  for (auto _ : state) {
    now_ns += kMs;
    wheel.AdvanceTo(now_ns, &expired);
    while (TimerEntry* entry = expired.PopFront()) {
      entry->deadline_ns += kMaxDelayNs;
      wheel.Add(entry);
    }
  }
}

BENCHMARK(BM_SetAddCancel)->Arg(1000)->Arg(1'000'000);
BENCHMARK(BM_WheelAddCancel)->Arg(1000)->Arg(1'000'000);
BENCHMARK(BM_SetExpire)->Arg(1000)->Arg(1'000'000);
BENCHMARK(BM_WheelExpire)->Arg(1000)->Arg(1'000'000);

}  // namespace
}  // namespace gyre

BENCHMARK_MAIN();
