// Names and holds every metric of a server; built by main and passed down.
// Handles are valid as long as the registry.
//
// Names are Prometheus' (snake_case, the unit last: `network_received_bytes_total`);
// labels are its text between the braces, as in `api="Fetch",version="12"`.
// Registering a name with the same labels again gives the same metric.
//
// Threads: any; registration and reading take a lock, changing a metric none.
// Owns: the cells.  Borrows: the contexts of callbacks, and collectors.
#ifndef GYRE_ENGINE_METRICS_METRIC_REGISTRY_H_
#define GYRE_ENGINE_METRICS_METRIC_REGISTRY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/exposition.h"
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
                         absl::string_view labels = "", const HistogramFormat& format = {});
  // Tells what `histogram` of this registry recorded under another name as well.
  void AddHistogramView(absl::string_view name, absl::string_view help, absl::string_view labels,
                        const Histogram& histogram, const HistogramFormat& format);
  // `read(context)` is called at every exposition, on that thread, and must not
  // call the registry. A second callback under the same name and labels
  // replaces the first.
  using ReadGauge = int64_t (*)(const void* context);
  void AddCallbackGauge(absl::string_view name, absl::string_view help, absl::string_view labels,
                        ReadGauge read, const void* context);
  // For a context that dies before the registry.
  void RemoveCallbackGauges(const void* context);
  // Asked at every exposition, until it is removed; in the order they were added.
  void AddCollector(MetricCollector* collector);
  // It is not called any more once this returned.
  void RemoveCollector(MetricCollector* collector);

  // Prometheus' text format 0.0.4; histograms that recorded nothing are left out.
  std::string Exposition() const;
  // A counter's or gauge's value, a histogram's count, what a collector tells (cut to
  // an integer); nothing under an unknown name.
  std::optional<int64_t> Value(absl::string_view name, absl::string_view labels = "") const;

 private:
  enum class Kind : uint8_t { kCounter, kGauge, kHistogram, kCallbackGauge };

  struct Series {
    uint32_t first_cell = 0;
    ReadGauge read = nullptr;
    const void* context = nullptr;
    HistogramFormat format;
  };
  // All series of one name.
  struct Family {
    Kind kind = Kind::kCounter;
    std::string help;
    std::map<std::string, Series> series;  // by labels
  };

  void CollectOwn(MetricSink& sink) const ABSL_LOCKS_EXCLUDED(mutex_);
  void CollectOthers(MetricSink& sink) const ABSL_LOCKS_EXCLUDED(collectors_mutex_);
  // The first cell of the series, made if it is new.
  uint32_t FindOrAdd(absl::string_view name, absl::string_view help, absl::string_view labels,
                     Kind kind, uint32_t cell_count, const HistogramFormat& format = {});
  Family& FamilyOf(absl::string_view name, absl::string_view help, Kind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t ReadSeries(Kind kind, const Series& series) const;

  mutable Mutex mutex_;
  mutable ThreadCells cells_;
  std::map<std::string, Family, std::less<>> families_ ABSL_GUARDED_BY(mutex_);

  // Not held together with mutex_: a collector waits for locks under which metrics are
  // registered.
  mutable Mutex collectors_mutex_;
  std::vector<MetricCollector*> collectors_ ABSL_GUARDED_BY(collectors_mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_METRIC_REGISTRY_H_
