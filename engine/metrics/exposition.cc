#include "engine/metrics/exposition.h"

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

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

// Nanoseconds and what they are called; a value counts below a bound when its own
// bucket begins below it, which is off by at most one part in sixteen.
struct Bound {
  int64_t ns;
  const char* label;
};
constexpr Bound kBounds[] = {
    {100'000, "le=\"0.0001\""},    {250'000, "le=\"0.00025\""},   {500'000, "le=\"0.0005\""},
    {1'000'000, "le=\"0.001\""},   {2'500'000, "le=\"0.0025\""},  {5'000'000, "le=\"0.005\""},
    {10'000'000, "le=\"0.01\""},   {25'000'000, "le=\"0.025\""},  {50'000'000, "le=\"0.05\""},
    {100'000'000, "le=\"0.1\""},   {250'000'000, "le=\"0.25\""},  {500'000'000, "le=\"0.5\""},
    {1'000'000'000, "le=\"1\""},   {2'500'000'000, "le=\"2.5\""}, {5'000'000'000, "le=\"5\""},
    {10'000'000'000, "le=\"10\""}, {30'000'000'000, "le=\"30\""},
};

std::string ValueText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  // Counts are exact up to 2^53.
  if (value == std::floor(value) && std::abs(value) < 9007199254740992.0) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  return absl::StrFormat("%.9g", value);
}

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kUntyped:
      return "untyped";
    case MetricType::kSummary:
      return "summary";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

}  // namespace

std::string MetricLabel(absl::string_view name, absl::string_view value) {
  return absl::StrCat(name, "=\"",
                      absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                      "\"");
}

std::string MetricLabels(absl::string_view first, absl::string_view second) {
  return absl::StrCat(first, first.empty() || second.empty() ? "" : ",", second);
}

MetricSink::Family& MetricSink::FamilyOf(MetricType type, absl::string_view name,
                                         absl::string_view help) {
  auto [entry, added] = families_.try_emplace(std::string(name));
  if (added) {
    entry->second.type = type;
    entry->second.help = std::string(help);
  }
  return entry->second;
}

void MetricSink::Add(MetricType type, absl::string_view name, absl::string_view help,
                     absl::string_view labels, double value) {
  FamilyOf(type, name, help).samples.push_back(Sample{"", std::string(labels), value});
}

void MetricSink::AddHistogram(absl::string_view name, absl::string_view help,
                              absl::string_view labels, const HistogramSnapshot& snapshot,
                              const HistogramFormat& format) {
  if (snapshot.count == 0) return;
  std::vector<Sample>& samples = FamilyOf(format.type, name, help).samples;
  if (format.type == MetricType::kSummary) {
    for (const Quantile& quantile : kQuantiles) {
      samples.push_back(Sample{"", MetricLabels(labels, quantile.label),
                               snapshot.Percentile(quantile.fraction) * format.scale});
    }
  } else {
    uint32_t index = 0;
    int64_t below = 0;
    for (const Bound& bound : kBounds) {
      for (; index < HistogramBuckets::kCount && HistogramBuckets::LowerBound(index) <= bound.ns;
           ++index) {
        below += snapshot.buckets[index];
      }
      samples.push_back(
          Sample{"_bucket", MetricLabels(labels, bound.label), static_cast<double>(below)});
    }
    samples.push_back(Sample{"_bucket", MetricLabels(labels, "le=\"+Inf\""),
                             static_cast<double>(snapshot.count)});
  }
  const std::string own(labels);
  samples.push_back(Sample{"_sum", own, static_cast<double>(snapshot.sum) * format.scale});
  samples.push_back(Sample{"_count", own, static_cast<double>(snapshot.count)});
}

std::string MetricSink::Text() const {
  std::string out;
  for (const auto& [name, family] : families_) {
    absl::StrAppend(&out, "# HELP ", name, " ",
                    absl::StrReplaceAll(family.help, {{"\\", "\\\\"}, {"\n", "\\n"}}), "\n# TYPE ",
                    name, " ", TypeName(family.type), "\n");
    for (const Sample& sample : family.samples) {
      absl::StrAppend(&out, name, sample.suffix);
      if (!sample.labels.empty()) absl::StrAppend(&out, "{", sample.labels, "}");
      absl::StrAppend(&out, " ", ValueText(sample.value), "\n");
    }
  }
  return out;
}

std::optional<double> MetricSink::Value(absl::string_view name, absl::string_view labels) const {
  const auto family = families_.find(name);
  if (family == families_.end()) return std::nullopt;
  for (const Sample& sample : family->second.samples) {
    if (sample.suffix.empty() && sample.labels == labels) return sample.value;
  }
  return std::nullopt;
}

}  // namespace gyre
