// How many times faster is the accelerated CRC-32C than the table, and how fast is it in GB/s?
#include <string>

#include "benchmark/benchmark.h"
#include "engine/base/crc32c.h"
#include "engine/base/random.h"

namespace gyre {
namespace {

std::string Bytes(size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  Random(1).Fill(bytes.data(), bytes.size());
  return bytes;
}

// Baseline.
void BM_Table(benchmark::State& state) {
  const std::string bytes = Bytes(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ExtendCrc32cPortable(0, bytes.data(), bytes.size()));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_Accelerated(benchmark::State& state) {
  const std::string bytes = Bytes(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(ExtendCrc32c(0, bytes.data(), bytes.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.SetLabel(Crc32cIsAccelerated() ? "crc32 + pclmul" : "no instruction: the table");
}

BENCHMARK(BM_Table)->Arg(64)->Arg(1024)->Arg(16 << 10)->Arg(1 << 20);
BENCHMARK(BM_Accelerated)->Arg(64)->Arg(1024)->Arg(16 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace gyre

BENCHMARK_MAIN();
