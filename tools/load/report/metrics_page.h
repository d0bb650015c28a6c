// The broker's own metrics, as its /metrics shows them (Prometheus text).
#ifndef GYRE_TOOLS_LOAD_REPORT_METRICS_PAGE_H_
#define GYRE_TOOLS_LOAD_REPORT_METRICS_PAGE_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/load/host_names.h"
#include "tools/load/result.h"

namespace gyre::load {

// "http://HOST:PORT/PATH". Never waits longer than a few seconds.
absl::StatusOr<MetricValues> FetchMetrics(const std::string& url, HostNames& hosts,
                                          const std::atomic<bool>& interrupted);
// Lines that are none are left out.
MetricValues ParseMetrics(absl::string_view text);

// What changed, for a table: the name, the value before and after. Buckets of histograms
// are left out.
struct MetricChange {
  std::string name;
  double before = 0;
  double after = 0;
};
std::vector<MetricChange> MetricChanges(const MetricValues& before, const MetricValues& after);

// Summaries that moved: the mean of what was added, over the run. For names that end in
// _sum with a _count beside.
struct MetricMean {
  std::string name;  // without _sum, with its labels
  double mean = 0;
  double count = 0;
};
std::vector<MetricMean> MetricMeans(const MetricValues& before, const MetricValues& after);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_METRICS_PAGE_H_
