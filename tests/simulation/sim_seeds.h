// Many runs of a simulation, one for each seed.
//
// SIMULATION_SEED=n repeats one run, SIMULATION_SEEDS=n makes it n runs.
#ifndef GYRE_TESTS_SIMULATION_SIM_SEEDS_H_
#define GYRE_TESTS_SIMULATION_SIM_SEEDS_H_

#include <cstdint>
#include <cstdlib>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace gyre::sim {

// Calls `run` for `count` seeds from `first` on, until one fails its test. How many there
// were to be; fewer than `count`: what the sum of all runs must reach was not asked for.
inline uint64_t ForEachSeed(uint64_t first, uint64_t count,
                            absl::FunctionRef<void(uint64_t seed)> run) {
  if (const char* only = std::getenv("SIMULATION_SEED"); only != nullptr) {
    CHECK(absl::SimpleAtoi(only, &first));
    count = 1;
  } else if (const char* many = std::getenv("SIMULATION_SEEDS"); many != nullptr) {
    CHECK(absl::SimpleAtoi(many, &count));
  }
  for (uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    run(seed);
  }
  return count;
}

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_SEEDS_H_
