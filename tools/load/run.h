// Runs workloads at the same time and gathers what they found.
//
// Threads: one; starts and joins those of the workloads.
#ifndef GYRE_TOOLS_LOAD_RUN_H_
#define GYRE_TOOLS_LOAD_RUN_H_

#include <atomic>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/load/options.h"
#include "tools/load/result.h"

namespace gyre::load {

// Each part with its options (checked). Fails, with one line, when the run could not be
// made at all; a run that went wrong is a result that says so. `interrupted` may become
// true at any time: the run ends with what it has.
absl::StatusOr<RunResult> RunParts(const std::vector<Options>& parts,
                                   const std::atomic<bool>& interrupted);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_RUN_H_
