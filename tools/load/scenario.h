// The file of --workload=mixed: several workloads at once.
//
//   # what everybody gets may come from the command line
//   [writers]
//   workload=produce
//   rate=5000
//   [readers]
//   workload=consume
//   at_end=wait
#ifndef GYRE_TOOLS_LOAD_SCENARIO_H_
#define GYRE_TOOLS_LOAD_SCENARIO_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/load/options.h"

namespace gyre::load {

// `base`: the command line's options, which every section starts from. A message names
// its line.
absl::StatusOr<std::vector<Options>> ParseScenario(absl::string_view text, const Options& base);

// The parts of a run, checked: one, or those of the scenario.
absl::StatusOr<std::vector<Options>> PartsOf(const Options& options);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_SCENARIO_H_
