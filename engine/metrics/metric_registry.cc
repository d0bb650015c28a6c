#include "engine/metrics/metric_registry.h"

#include "glog/logging.h"

namespace gyre {

Counter MetricRegistry::AddCounter(absl::string_view name, absl::string_view help,
                                   absl::string_view labels) {
  return Counter(&cells_, FindOrAdd(name, help, labels, Kind::kCounter, 1));
}

Gauge MetricRegistry::AddGauge(absl::string_view name, absl::string_view help,
                               absl::string_view labels) {
  return Gauge(&cells_, FindOrAdd(name, help, labels, Kind::kGauge, 1));
}

Histogram MetricRegistry::AddHistogram(absl::string_view name, absl::string_view help,
                                       absl::string_view labels, const HistogramFormat& format) {
  return Histogram(&cells_,
                   FindOrAdd(name, help, labels, Kind::kHistogram, Histogram::kCellCount, format));
}

void MetricRegistry::AddHistogramView(absl::string_view name, absl::string_view help,
                                      absl::string_view labels, const Histogram& histogram,
                                      const HistogramFormat& format) {
  MutexLock lock(mutex_);
  Series& series = FamilyOf(name, help, Kind::kHistogram).series[std::string(labels)];
  series.first_cell = histogram.first_cell();
  series.format = format;
}

void MetricRegistry::AddCollector(MetricCollector* collector) {
  MutexLock lock(collectors_mutex_);
  collectors_.push_back(collector);
}

void MetricRegistry::RemoveCollector(MetricCollector* collector) {
  MutexLock lock(collectors_mutex_);
  std::erase(collectors_, collector);
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
                                   absl::string_view labels, Kind kind, uint32_t cell_count,
                                   const HistogramFormat& format) {
  MutexLock lock(mutex_);
  auto [entry, added] = FamilyOf(name, help, kind).series.try_emplace(std::string(labels));
  if (added) {
    entry->second.first_cell = cells_.Allocate(cell_count);
    entry->second.format = format;
  }
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

void MetricRegistry::CollectOwn(MetricSink& sink) const {
  MutexLock lock(mutex_);
  for (const auto& [name, family] : families_) {
    for (const auto& [labels, series] : family.series) {
      if (family.kind == Kind::kHistogram) {
        sink.AddHistogram(name, family.help, labels,
                          Histogram(&cells_, series.first_cell).Snapshot(), series.format);
        continue;
      }
      sink.Add(family.kind == Kind::kCounter ? MetricType::kCounter : MetricType::kGauge, name,
               family.help, labels, static_cast<double>(ReadSeries(family.kind, series)));
    }
  }
}

void MetricRegistry::CollectOthers(MetricSink& sink) const {
  MutexLock lock(collectors_mutex_);
  for (MetricCollector* collector : collectors_) collector->Collect(sink);
}

std::string MetricRegistry::Exposition() const {
  MetricSink sink;
  CollectOwn(sink);
  CollectOthers(sink);
  return sink.Text();
}

std::optional<int64_t> MetricRegistry::Value(absl::string_view name,
                                             absl::string_view labels) const {
  {
    MutexLock lock(mutex_);
    if (const auto family = families_.find(name); family != families_.end()) {
      const auto series = family->second.series.find(std::string(labels));
      if (series == family->second.series.end()) return std::nullopt;
      return ReadSeries(family->second.kind, series->second);
    }
  }
  MetricSink sink;
  CollectOthers(sink);
  const std::optional<double> value = sink.Value(name, labels);
  if (!value.has_value()) return std::nullopt;
  return static_cast<int64_t>(*value);
}

}  // namespace gyre
