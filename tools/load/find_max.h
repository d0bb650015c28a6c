// --find_max: the highest rate that keeps a bound on the 99th percentile.
//
// The rate is doubled until a run breaks the bound (or is not valid), then the interval
// between the last that kept it and the first that broke it is halved until it is within
// 5 %. What was found is then run again; only a rate that keeps the bound in three runs
// in a row is reported, else the search goes on below it.
//
// Threads: one.
#ifndef GYRE_TOOLS_LOAD_FIND_MAX_H_
#define GYRE_TOOLS_LOAD_FIND_MAX_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace gyre::load {

struct SearchStep {
  double rate = 0;
  double reached = 0;
  double p99_ms = 0;
  bool valid = false;
  bool kept = false;  // valid, and within the bound
};

struct Search {
  double bound_ms = 0;
  double found_rate = 0;   // 0: even the lowest rate tried breaks the bound
  double broken_rate = 0;  // the lowest rate above it that broke it; 0: none did
  int confirmations = 0;   // runs in a row at found_rate that kept it
  std::vector<SearchStep> steps;
};

// `run` makes one run at a rate. An error of it ends the search.
absl::StatusOr<Search> FindMax(double first_rate, double bound_ms,
                               const std::function<absl::StatusOr<SearchStep>(double rate)>& run);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_FIND_MAX_H_
