// Names and holds every metric of a server; built by main and passed down.
// Handles are valid as long as the registry.
//
// Names are Prometheus' (snake_case, the unit last: `request_total_time_ns`);
// labels are its text between the braces, as in `api="Fetch",version="12"`.
// Registering a name with the same labels again gives the same metric.
//
// Threads: any; registration and reading take a lock, changing a metric none.
// Owns: the cells.  Borrows: the contexts of callbacks.
#ifndef GYRE_ENGINE_METRICS_METRIC_REGISTRY_H_
#define GYRE_ENGINE_METRICS_METRIC_REGISTRY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/histogram.h"
#include "engine/metrics/thread_cells.h"

namespace gyre {

class MetricRegistry {
 public:
  // A counter or gauge takes one cell, a histogram Histogram::kCellCount.
  static constexpr uint32_t kDefaultCellCapacity = 1 << 20;

  explicit MetricRegistry(uint32_t cell_capacity = kDefaultCellCapacity) : cells_(cell_capacity) {}

  Counter AddCounter(absl::string_view name, absl::string_view help, absl::string_view labels = "");
  Gauge AddGauge(absl::string_view name, absl::string_view help, absl::string_view labels = "");
  Histogram AddHistogram(absl::string_view name, absl::string_view help,
                         absl::string_view labels = "");
  // `read(context)` is called at every exposition, on that thread, and must not
  // call the registry. A second callback under the same name and labels
  // replaces the first.
  using ReadGauge = int64_t (*)(const void* context);
  void AddCallbackGauge(absl::string_view name, absl::string_view help, absl::string_view labels,
                        ReadGauge read, const void* context);
  // For a context that dies before the registry.
  void RemoveCallbackGauges(const void* context);

  // Prometheus' text format 0.0.4; histograms as summaries (quantiles 0.5, 0.9,
  // 0.99, 0.999, then _sum and _count), those that recorded nothing left out.
  std::string Exposition() const;
  // A counter's or gauge's value, a histogram's count; nothing under an unknown
  // name.
  std::optional<int64_t> Value(absl::string_view name, absl::string_view labels = "") const;

 private:
  enum class Kind : uint8_t { kCounter, kGauge, kHistogram, kCallbackGauge };

  struct Series {
    uint32_t first_cell = 0;
    ReadGauge read = nullptr;
    const void* context = nullptr;
  };
  // All series of one name.
  struct Family {
    Kind kind = Kind::kCounter;
    std::string help;
    std::map<std::string, Series> series;  // by labels
  };

  // The first cell of the series, made if it is new.
  uint32_t FindOrAdd(absl::string_view name, absl::string_view help, absl::string_view labels,
                     Kind kind, uint32_t cell_count);
  Family& FamilyOf(absl::string_view name, absl::string_view help, Kind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t ReadSeries(Kind kind, const Series& series) const;
  void AppendSummary(const std::string& name, const std::string& labels, const Series& series,
                     std::string* out) const;

  mutable Mutex mutex_;
  mutable ThreadCells cells_;
  std::map<std::string, Family, std::less<>> families_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_METRIC_REGISTRY_H_
