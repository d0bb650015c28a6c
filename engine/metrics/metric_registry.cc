#include "engine/metrics/metric_registry.h"

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace gyre {
namespace {

struct Quantile {
  const char* label;
  double fraction;
};
constexpr Quantile kQuantiles[] = {
    {"quantile=\"0.5\"", 0.5},
    {"quantile=\"0.9\"", 0.9},
    {"quantile=\"0.99\"", 0.99},
    {"quantile=\"0.999\"", 0.999},
};

void AppendSample(absl::string_view name, absl::string_view labels, int64_t value,
                  std::string* out) {
  if (labels.empty()) {
    absl::StrAppend(out, name, " ", value, "\n");
  } else {
    absl::StrAppend(out, name, "{", labels, "} ", value, "\n");
  }
}

std::string Join(absl::string_view labels, absl::string_view more) {
  return labels.empty() ? std::string(more) : absl::StrCat(labels, ",", more);
}

}  // namespace

Counter MetricRegistry::AddCounter(absl::string_view name, absl::string_view help,
                                   absl::string_view labels) {
  return Counter(&cells_, FindOrAdd(name, help, labels, Kind::kCounter, 1));
}

Gauge MetricRegistry::AddGauge(absl::string_view name, absl::string_view help,
                               absl::string_view labels) {
  return Gauge(&cells_, FindOrAdd(name, help, labels, Kind::kGauge, 1));
}

Histogram MetricRegistry::AddHistogram(absl::string_view name, absl::string_view help,
                                       absl::string_view labels) {
  return Histogram(&cells_, FindOrAdd(name, help, labels, Kind::kHistogram, Histogram::kCellCount));
}

void MetricRegistry::AddCallbackGauge(absl::string_view name, absl::string_view help,
                                      absl::string_view labels, ReadGauge read,
                                      const void* context) {
  MutexLock lock(mutex_);
  Series& series = FamilyOf(name, help, Kind::kCallbackGauge).series[std::string(labels)];
  series.read = read;
  series.context = context;
}

void MetricRegistry::RemoveCallbackGauges(const void* context) {
  MutexLock lock(mutex_);
  for (auto& [name, family] : families_) {
    if (family.kind != Kind::kCallbackGauge) continue;
    std::erase_if(family.series,
                  [&](const auto& entry) { return entry.second.context == context; });
  }
}

MetricRegistry::Family& MetricRegistry::FamilyOf(absl::string_view name, absl::string_view help,
                                                 Kind kind) {
  auto [entry, added] = families_.try_emplace(std::string(name));
  Family& family = entry->second;
  if (added) {
    family.kind = kind;
    family.help = std::string(help);
  }
  CHECK(family.kind == kind) << "metric " << name << " is registered as two kinds";
  return family;
}

uint32_t MetricRegistry::FindOrAdd(absl::string_view name, absl::string_view help,
                                   absl::string_view labels, Kind kind, uint32_t cell_count) {
  MutexLock lock(mutex_);
  auto [entry, added] = FamilyOf(name, help, kind).series.try_emplace(std::string(labels));
  if (added) entry->second.first_cell = cells_.Allocate(cell_count);
  return entry->second.first_cell;
}

int64_t MetricRegistry::ReadSeries(Kind kind, const Series& series) const {
  switch (kind) {
    case Kind::kCounter:
    case Kind::kGauge:
      return cells_.Sum(series.first_cell);
    case Kind::kHistogram:
      return Histogram(&cells_, series.first_cell).Snapshot().count;
    case Kind::kCallbackGauge:
      return series.read(series.context);
  }
  return 0;
}

void MetricRegistry::AppendSummary(const std::string& name, const std::string& labels,
                                   const Series& series, std::string* out) const {
  const HistogramSnapshot snapshot = Histogram(&cells_, series.first_cell).Snapshot();
  if (snapshot.count == 0) return;
  for (const Quantile& quantile : kQuantiles) {
    AppendSample(name, Join(labels, quantile.label), snapshot.Percentile(quantile.fraction), out);
  }
  AppendSample(absl::StrCat(name, "_sum"), labels, snapshot.sum, out);
  AppendSample(absl::StrCat(name, "_count"), labels, snapshot.count, out);
}

std::string MetricRegistry::Exposition() const {
  std::string out;
  MutexLock lock(mutex_);
  for (const auto& [name, family] : families_) {
    std::string samples;
    for (const auto& [labels, series] : family.series) {
      if (family.kind == Kind::kHistogram) {
        AppendSummary(name, labels, series, &samples);
      } else {
        AppendSample(name, labels, ReadSeries(family.kind, series), &samples);
      }
    }
    if (samples.empty()) continue;
    const char* type = family.kind == Kind::kCounter     ? "counter"
                       : family.kind == Kind::kHistogram ? "summary"
                                                         : "gauge";
    absl::StrAppend(&out, "# HELP ", name, " ", family.help, "\n# TYPE ", name, " ", type, "\n",
                    samples);
  }
  return out;
}

std::optional<int64_t> MetricRegistry::Value(absl::string_view name,
                                             absl::string_view labels) const {
  MutexLock lock(mutex_);
  const auto family = families_.find(std::string(name));
  if (family == families_.end()) return std::nullopt;
  const auto series = family->second.series.find(std::string(labels));
  if (series == family->second.series.end()) return std::nullopt;
  return ReadSeries(family->second.kind, series->second);
}

}  // namespace gyre
