#include "tools/load/report/json.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/load/report/metrics_page.h"
#include "tools/load/report/table.h"

namespace gyre::load {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kCurve[] = {0,    10,    20,   30,    40,    50,     60,     70,
                             75,   80,    85,   90,    95,    97.5,   98,     99,
                             99.5, 99.75, 99.9, 99.95, 99.99, 99.995, 99.999, 100};

Json HistogramJson(const Histogram& histogram) {
  Json percentiles = Json::object();
  for (const double percent : kCurve) {
    percentiles[absl::StrCat(percent)] = histogram.Percentile(percent);
  }
  return {{"count", histogram.count()},
          {"mean", histogram.Mean()},
          {"min", histogram.min()},
          {"max", histogram.max()},
          {"percentiles", percentiles}};
}

Json ChecksJson(const PartResult& part) {
  const CheckCounts& checks = part.checks;
  return {{"done", part.checked},
          {"checked", checks.checked},
          {"lost", checks.lost},
          {"duplicated", checks.duplicated},
          {"reordered", checks.reordered},
          {"corrupted", checks.corrupted},
          {"idempotent", part.idempotent},
          {"sent_again", part.sent_again},
          {"duplicated_by_retry", checks.duplicated_by_retry},
          {"reordered_by_retry", checks.reordered_by_retry},
          {"never_written", checks.never_written},
          {"foreign", checks.foreign},
          {"unread_partitions", part.unread_partitions}};
}

Json MemoryJson(const Memory& memory) {
  return {{"client_bytes", memory.client_bytes},
          {"server_bytes", memory.server_bytes},
          {"kernel_tcp_bytes", memory.kernel_tcp_bytes}};
}

Json SecondsJson(const std::vector<SecondSummary>& seconds) {
  Json series = Json::array();
  for (const SecondSummary& second : seconds) {
    series.push_back({{"second", second.second},
                      {"operations", second.operations},
                      {"bytes", second.bytes},
                      {"errors", second.errors},
                      {"p50_ns", second.p50_ns},
                      {"p99_ns", second.p99_ns},
                      {"max_ns", second.max_ns}});
  }
  return series;
}

Json PartJson(const PartResult& part) {
  const Totals& totals = part.totals;
  const double seconds = part.measured_s > 0 ? part.measured_s : 1;
  Json options = Json::object();
  for (const auto& [name, value] : part.options) options[name] = value;
  Json json = {
      {"name", part.name},
      {"workload", part.workload},
      {"options", options},
      {"open_loop", part.rate_asked > 0},
      {"rate_asked", part.rate_asked},
      {"measured_s", part.measured_s},
      {"operations", totals.operations_in_window},
      {"operations_per_s", static_cast<double>(totals.operations_in_window) / seconds},
      {"bytes_per_s", static_cast<double>(totals.bytes_in_window) / seconds},
      {"client_cpu_s", part.client_cpu_s},
      {"latency_ns", HistogramJson(totals.latency)},
      {"service_ns", HistogramJson(totals.service)},
      {"late_start_ns", HistogramJson(totals.delay)},
      {"own_late_start_ns", HistogramJson(totals.own_delay)},
      {"checks", ChecksJson(part)},
      {"unanswered", part.unanswered},
      {"connections_lost", part.lost_connections.count},
      {"open_connections", part.open_connections},
      {"memory_before", MemoryJson(part.memory_before)},
      {"memory_at_end", MemoryJson(part.memory_after)},
      {"errors", totals.errors},
      {"notes", part.notes},
      {"reasons", part.reasons},
      {"seconds", SecondsJson(part.seconds)},
  };
  return json;
}

Json SearchJson(const Search& search) {
  Json steps = Json::array();
  for (const SearchStep& step : search.steps) {
    steps.push_back({{"rate", step.rate},
                     {"reached", step.reached},
                     {"p99_ms", step.p99_ms},
                     {"valid", step.valid},
                     {"kept", step.kept}});
  }
  return {{"p99_ms", search.bound_ms},
          {"found_rate", search.found_rate},
          {"broken_rate", search.broken_rate},
          {"confirmations", search.confirmations},
          {"steps", steps}};
}

Json MetricsJson(const RunResult& result) {
  Json changes = Json::array();
  for (const MetricChange& change : MetricChanges(result.metrics_before, result.metrics_after)) {
    changes.push_back({{"name", change.name}, {"before", change.before}, {"after", change.after}});
  }
  Json means = Json::array();
  for (const MetricMean& mean : MetricMeans(result.metrics_before, result.metrics_after)) {
    means.push_back({{"name", mean.name}, {"mean", mean.mean}, {"count", mean.count}});
  }
  return {{"changes", changes}, {"means", means}};
}

}  // namespace

std::string JsonText(const RunResult& result, const Search* search) {
  Json parts = Json::array();
  for (const PartResult& part : result.parts) parts.push_back(PartJson(part));
  Json json = {{"format", "gyre_load 1"},
               {"valid", result.valid()},
               {"verdict", VerdictText(result)},
               {"interrupted", result.interrupted},
               {"machine", result.machine},
               {"started_unix_ms", result.started_unix_ms},
               {"parts", parts},
               {"server_metrics", MetricsJson(result)},
               {"notes", result.notes}};
  if (search != nullptr) json["find_max"] = SearchJson(*search);
  return absl::StrCat(json.dump(1, ' ', false, Json::error_handler_t::replace), "\n");
}

}  // namespace gyre::load
