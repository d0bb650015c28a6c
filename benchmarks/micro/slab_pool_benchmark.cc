// How does taking and giving back a slab buffer compare with malloc, with one and two threads?
#include <cstdlib>
#include <memory>

#include "benchmark/benchmark.h"
#include "engine/memory/buffer.h"
#include "engine/memory/slab_pool.h"

namespace gyre {
namespace {

constexpr int kHeld = 16;

SlabPool& Pool() {
  static const std::unique_ptr<SlabPool> pool = *SlabPool::Create(
      SlabPoolConfig::Evenly(/*class_bytes=*/int64_t{256} << 20, /*run_bytes=*/0));
  return *pool;
}

// The first byte is written: memory that is not touched is not needed either.
void Touch(void* memory) {
  benchmark::DoNotOptimize(memory);
  *static_cast<char*>(memory) = 1;
  benchmark::ClobberMemory();
}

// Baseline.
void BM_Malloc(benchmark::State& state) {
  void* held[kHeld];
  for (auto _ : state) {
    for (void*& memory : held) {
      memory = malloc(state.range(0));
      Touch(memory);
    }
    for (void* memory : held) free(memory);
  }
  state.SetItemsProcessed(state.iterations() * kHeld);
}

void BM_SlabPool(benchmark::State& state) {
  SlabPool& pool = Pool();
  Buffer held[kHeld];
  for (auto _ : state) {
    for (Buffer& buffer : held) {
      buffer = pool.Allocate(static_cast<uint32_t>(state.range(0)));
      Touch(buffer.data());
    }
    for (Buffer& buffer : held) buffer.Reset();
  }
  state.SetItemsProcessed(state.iterations() * kHeld);
}

void BM_HeapBuffer(benchmark::State& state) {
  Buffer held[kHeld];
  for (auto _ : state) {
    for (Buffer& buffer : held) {
      buffer = Buffer::Allocate(static_cast<uint32_t>(state.range(0)));
      Touch(buffer.data());
    }
    for (Buffer& buffer : held) buffer.Reset();
  }
  state.SetItemsProcessed(state.iterations() * kHeld);
}

BENCHMARK(BM_Malloc)->Arg(4096)->Arg(256 << 10)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_SlabPool)->Arg(4096)->Arg(256 << 10)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_HeapBuffer)->Arg(4096)->Arg(256 << 10)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace gyre

BENCHMARK_MAIN();
