// The samples of one scrape, and their text in Prometheus' format 0.0.4: families sorted
// by name, each with HELP and TYPE in front, whoever contributed to it.
//
// Threads: one at a time.
#ifndef GYRE_ENGINE_METRICS_EXPOSITION_H_
#define GYRE_ENGINE_METRICS_EXPOSITION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/metrics/histogram.h"

namespace gyre {

enum class MetricType : uint8_t {
  kCounter,
  kGauge,
  kUntyped,  // a gauge whose Kafka name breaks Prometheus' naming rules
  kSummary,
  kHistogram,
};

// How a histogram's values are told.
struct HistogramFormat {
  // kSummary: quantiles 0.5, 0.9, 0.99, 0.999. kHistogram: cumulative buckets from 100 µs
  // to 30 s (values are nanoseconds, told in seconds).
  MetricType type = MetricType::kSummary;
  double scale = 1;  // what is told for a recorded 1

  static HistogramFormat NanosecondsAsMilliseconds() { return {MetricType::kSummary, 1e-6}; }
  static HistogramFormat NanosecondsAsBuckets() { return {MetricType::kHistogram, 1e-9}; }
};

// `name="value"`, the value escaped.
std::string MetricLabel(absl::string_view name, absl::string_view value);
// Joins labels with commas; empty ones are left out.
std::string MetricLabels(absl::string_view first, absl::string_view second);

class MetricSink {
 public:
  // A family's type and help are those of its first sample.
  void Add(MetricType type, absl::string_view name, absl::string_view help,
           absl::string_view labels, double value);
  void Counter(absl::string_view name, absl::string_view help, absl::string_view labels,
               double value) {
    Add(MetricType::kCounter, name, help, labels, value);
  }
  void Gauge(absl::string_view name, absl::string_view help, absl::string_view labels,
             double value) {
    Add(MetricType::kGauge, name, help, labels, value);
  }
  // Nothing when nothing was recorded.
  void AddHistogram(absl::string_view name, absl::string_view help, absl::string_view labels,
                    const HistogramSnapshot& snapshot, const HistogramFormat& format);

  std::string Text() const;
  // A sample's value; nothing where there is none.
  std::optional<double> Value(absl::string_view name, absl::string_view labels) const;

 private:
  struct Sample {
    std::string suffix;  // "_sum", …
    std::string labels;
    double value = 0;
  };
  struct Family {
    MetricType type = MetricType::kGauge;
    std::string help;
    std::vector<Sample> samples;
  };
  Family& FamilyOf(MetricType type, absl::string_view name, absl::string_view help);

  std::map<std::string, Family, std::less<>> families_;
};

// Tells, at each scrape, what is known elsewhere.
//
// Threads: Collect on the scraping thread, one at a time.
class MetricCollector {
 public:
  virtual void Collect(MetricSink& sink) = 0;

 protected:
  ~MetricCollector() = default;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_EXPOSITION_H_
