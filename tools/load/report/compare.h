// --compare: what changed between two results, as ratios with their spread.
#ifndef GYRE_TOOLS_LOAD_REPORT_COMPARE_H_
#define GYRE_TOOLS_LOAD_REPORT_COMPARE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gyre::load {

struct Ratio {
  double ratio = 0;  // of the medians, b over a
  double low = 0;    // 95 % of what resampling gives lies within [low, high]
  double high = 0;

  // The interval excludes "the same".
  bool is_different() const { return low > 1 || high < 1; }
};

// Bootstrap of the ratio of medians, by 2000 resamples from a fixed seed. Both sides need
// at least one positive value; with one alone there is no spread.
Ratio CompareSamples(const std::vector<double>& a, const std::vector<double>& b);

// Two names, each a file or a comma-separated list of rounds. The samples are the rounds,
// where both sides have three or more, else the seconds within them.
absl::StatusOr<std::string> CompareFiles(const std::vector<std::string>& names);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_COMPARE_H_
