// How does taking and giving back a slab buffer compare with malloc, on one thread, on two, and
// when a buffer is given back by another thread than took it? jemalloc is measured by preloading
// it: LD_PRELOAD=libjemalloc.so.2 slab_pool_benchmark.
#include <sched.h>

#include <cstdlib>
#include <memory>

#include "benchmark/benchmark.h"
#include "engine/concurrent/mpmc_queue.h"
#include "engine/memory/buffer.h"
#include "engine/memory/slab_pool.h"

namespace gyre {
namespace {

constexpr int kHeld = 16;

SlabPool* pool = nullptr;  // set by main

// Its pages are backed before anything is measured, as a server's are after a while.
std::unique_ptr<SlabPool> MakePool() {
  std::unique_ptr<SlabPool> made = *SlabPool::Create(
      SlabPoolConfig::Evenly(/*class_bytes=*/int64_t{256} << 20, /*run_bytes=*/0));
  for (size_t at = 0; at < made->region_bytes(); at += 4096) made->region()[at] = 1;
  return made;
}

// The first byte is written: memory that is not touched is not needed either.
void Touch(void* memory) {
  benchmark::DoNotOptimize(memory);
  *static_cast<char*>(memory) = 1;
  benchmark::ClobberMemory();
}

// What can be taken, moved to another thread and given back.
struct Malloc {
  void* memory = nullptr;
  void Take(size_t size) {
    memory = malloc(size);
    Touch(memory);
  }
  void GiveBack() { free(memory); }
};

struct Slab {
  Buffer buffer;
  void Take(size_t size) {
    buffer = pool->Allocate(static_cast<uint32_t>(size));
    Touch(buffer.data());
  }
  void GiveBack() { buffer.Reset(); }
};

struct Heap {
  Buffer buffer;
  void Take(size_t size) {
    buffer = Buffer::Allocate(static_cast<uint32_t>(size));
    Touch(buffer.data());
  }
  void GiveBack() { buffer.Reset(); }
};

template <typename Memory>
void BM_Local(benchmark::State& state) {
  Memory held[kHeld];
  for (auto _ : state) {
    for (Memory& memory : held) memory.Take(static_cast<size_t>(state.range(0)));
    for (Memory& memory : held) memory.GiveBack();
  }
  state.SetItemsProcessed(state.iterations() * kHeld);
}

// One thread takes, the other gives back, as a processor and a handler do; the same queue for
// every candidate. Batches of kHeld, so that the queue does not hide what is compared.
template <typename Memory>
void BM_HandOver(benchmark::State& state) {
  struct Batch {
    Memory held[kHeld];
  };
  static Batch batches[8];
  static MpmcQueue<Batch*> full(8), empty(8);
  static const bool filled = [] {
    for (Batch& batch : batches) empty.TryPush(&batch);
    return true;
  }();
  benchmark::DoNotOptimize(filled);
  const auto insist = [](MpmcQueue<Batch*>& queue) {
    Batch* batch = nullptr;
    for (int failures = 0; !queue.TryPop(batch);) {
      if (++failures % 64 == 0) {
        sched_yield();
      } else {
        __builtin_ia32_pause();
      }
    }
    return batch;
  };
  if (state.thread_index() == 0) {
    for (auto _ : state) {
      Batch* batch = insist(empty);
      for (Memory& memory : batch->held) memory.Take(static_cast<size_t>(state.range(0)));
      full.TryPush(batch);
    }
  } else {
    for (auto _ : state) {
      Batch* batch = insist(full);
      for (Memory& memory : batch->held) memory.GiveBack();
      empty.TryPush(batch);
    }
    state.SetItemsProcessed(state.iterations() * kHeld);
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t size : {512, 4096, 64 << 10, 256 << 10}) benchmark->Arg(size);
}

BENCHMARK_TEMPLATE(BM_Local, Malloc)->Apply(Sizes)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK_TEMPLATE(BM_Local, Slab)->Apply(Sizes)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK_TEMPLATE(BM_Local, Heap)->Apply(Sizes)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK_TEMPLATE(BM_HandOver, Malloc)->Apply(Sizes)->Threads(2)->UseRealTime();
BENCHMARK_TEMPLATE(BM_HandOver, Slab)->Apply(Sizes)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace gyre

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::unique_ptr<gyre::SlabPool> pool = gyre::MakePool();
  gyre::pool = pool.get();
  benchmark::RunSpecifiedBenchmarks();
}
