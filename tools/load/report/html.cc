#include "tools/load/report/html.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/load/report/chart.h"
#include "tools/load/report/metrics_page.h"
#include "tools/load/report/table.h"
#include "tools/load/report/units.h"

namespace gyre::load {
namespace {

constexpr char kHead[] = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gyre_load</title>
<style>
:root { --ink: #1b1f24; --soft: #667; --paper: #fff; --edge: #d8dbe0; --a: #0b62c4; --b: #c2571a; --c: #3a8f3a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa3ad; --paper: #14171b; --edge: #333a42; --a: #6cb0ff; --b: #ff9d5c; --c: #7fd37f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 780px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid var(--edge) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: .15em .9em .15em 0; text-align: right } td:first-child, th:first-child { text-align: left }
th { color: var(--soft); font-weight: 500 }
svg { width: 100%; height: auto; margin: .8em 0 } svg .title { fill: var(--ink); font-size: 13px; font-weight: 600 } svg .label { fill: var(--soft); font-size: 11px }
svg line, svg polyline { fill: none; stroke-width: 1.8 } svg .grid { stroke: var(--edge); stroke-width: 1 } .s0 { stroke: var(--a) } .s1 { stroke: var(--b) } .s2 { stroke: var(--c) } .dashed { stroke-dasharray: 5 4 }
.verdict { display: inline-block; padding: .2em .8em; border-radius: .4em; color: #fff; font-weight: 600 } .ok { background: #2c7a2c } .bad { background: #b3261e }
.bar { background: var(--a); height: .8em; display: inline-block; vertical-align: middle } pre { overflow-x: auto } .soft { color: var(--soft) } code { font-size: .9em }
</style></head><body>
)";

std::string TimeOfNs(double ns) { return Time(static_cast<int64_t>(ns)); }

// The x of a percentile: each nine is as wide as the others.
double NinesOf(double percent) { return -std::log10(1 - percent / 100); }

Line CurveOf(const std::string& name, const Histogram& histogram) {
  Line line{.name = name, .points = {}, .dashed = false};
  if (histogram.count() == 0) return line;
  // As far as there are operations to speak of.
  const double last = std::log10(static_cast<double>(histogram.count()));
  for (double nines = 0; nines <= std::min(last, 6.0); nines += 0.05) {
    const double percent = 100 * (1 - std::pow(10, -nines));
    line.points.emplace_back(nines, static_cast<double>(histogram.Percentile(percent)));
  }
  return line;
}

std::string LatencyChart(const PartResult& part) {
  Chart chart;
  chart.title = "Latency by percentile";
  chart.x_label = "percentile";
  chart.log_y = true;
  chart.show_y = TimeOfNs;
  const bool open_loop = part.rate_asked > 0;
  chart.lines.push_back(
      CurveOf(open_loop ? "from the intended start" : "latency", part.totals.latency));
  if (open_loop) chart.lines.push_back(CurveOf("service time", part.totals.service));
  for (const double percent : {0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999}) {
    chart.x_marks.emplace_back(NinesOf(percent), absl::StrCat(percent, "%"));
  }
  return ChartSvg(chart);
}

std::vector<std::pair<double, std::string>> SecondMarks(const std::vector<SecondSummary>& seconds) {
  std::vector<std::pair<double, std::string>> marks;
  if (seconds.empty()) return marks;
  const int64_t first = seconds.front().second, last = seconds.back().second;
  const int64_t step = std::max<int64_t>(1, (last - first) / 8);
  for (int64_t at = first; at <= last; at += step) {
    marks.emplace_back(static_cast<double>(at), absl::StrCat(at, " s"));
  }
  return marks;
}

std::string SeriesCharts(const PartResult& part) {
  Chart rate, latency;
  rate.title = "Operations per second";
  latency.title = "Latency within each second";
  rate.x_label = latency.x_label = "time (before 0: warm-up)";
  rate.x_marks = latency.x_marks = SecondMarks(part.seconds);
  rate.show_y = Count;
  latency.show_y = TimeOfNs;
  latency.log_y = true;
  rate.lines = {{.name = "done", .points = {}, .dashed = false}};
  if (part.rate_asked > 0) {
    rate.lines.push_back({.name = "asked", .points = {}, .dashed = true});
  }
  latency.lines = {{.name = "p50", .points = {}, .dashed = false},
                   {.name = "p99", .points = {}, .dashed = false},
                   {.name = "max", .points = {}, .dashed = true}};
  for (const SecondSummary& second : part.seconds) {
    // The last one is cut where the window ends.
    if (static_cast<double>(second.second) + 1 > part.measured_s + 0.01) continue;
    const auto x = static_cast<double>(second.second);
    rate.lines[0].points.emplace_back(x, static_cast<double>(second.operations));
    if (part.rate_asked > 0) rate.lines[1].points.emplace_back(x, part.rate_asked);
    latency.lines[0].points.emplace_back(x, static_cast<double>(second.p50_ns));
    latency.lines[1].points.emplace_back(x, static_cast<double>(second.p99_ns));
    latency.lines[2].points.emplace_back(x, static_cast<double>(second.max_ns));
  }
  std::string charts = ChartSvg(rate);
  if (part.has_latency) absl::StrAppend(&charts, ChartSvg(latency));
  return charts;
}

std::string PercentileTable(const PartResult& part) {
  const Totals& totals = part.totals;
  const bool open_loop = part.rate_asked > 0;
  std::string html = "<table><tr><th></th><th>latency</th>";
  if (open_loop) absl::StrAppend(&html, "<th>service time</th><th>late start</th>");
  absl::StrAppend(&html, "</tr>");
  const auto row = [&](const std::string& name, auto value) {
    absl::StrAppend(&html, "<tr><td>", name, "</td><td>", Time(value(totals.latency)), "</td>");
    if (open_loop) {
      absl::StrAppend(&html, "<td>", Time(value(totals.service)), "</td><td>",
                      Time(value(totals.delay)), "</td>");
    }
    absl::StrAppend(&html, "</tr>");
  };
  for (const double percent : kShownPercents) {
    row(absl::StrCat("p", percent),
        [percent](const Histogram& h) { return h.Percentile(percent); });
  }
  row("max", [](const Histogram& h) { return h.max(); });
  return absl::StrCat(html, "</table>");
}

std::string PartHtml(const PartResult& part) {
  std::string options;
  for (const auto& [name, value] : part.options) {
    absl::StrAppend(&options, " --", name, "=", value);
  }
  std::string html = absl::StrCat("<h2>", Escape(part.name), "</h2><p><code>gyre_load",
                                  Escape(options), "</code></p>");
  if (part.has_latency && part.totals.latency.count() > 0) {
    absl::StrAppend(&html, LatencyChart(part), PercentileTable(part));
  }
  absl::StrAppend(&html, SeriesCharts(part));
  return html;
}

// How long the broker says its phases took, on average, as bars beside the client's mean.
std::string PhasesHtml(const RunResult& result) {
  double client_ns = 0;
  for (const PartResult& part : result.parts) {
    client_ns = std::max(client_ns, part.totals.service.Mean());
  }
  std::vector<MetricMean> means;
  double longest = client_ns;
  for (MetricMean& mean : MetricMeans(result.metrics_before, result.metrics_after)) {
    const size_t labels = std::min(mean.name.find('{'), mean.name.size());
    const absl::string_view base = absl::string_view(mean.name).substr(0, labels);
    if (absl::EndsWith(base, "_seconds")) mean.mean *= 1e9;
    if (!absl::EndsWith(base, "_seconds") && !absl::EndsWith(base, "_ns")) continue;
    longest = std::max(longest, mean.mean);
    means.push_back(mean);
  }
  if (means.empty()) return "";
  std::string html =
      "<h3>Where the time went</h3><p class='soft'>Means over the run: the client's service time, "
      "and the broker's phases by its own clock.</p><table>";
  const auto bar = [&](const std::string& name, double ns, double count) {
    absl::StrAppendFormat(&html,
                          "<tr><td>%s</td><td>%s</td><td>%s</td><td style='text-align:left'>"
                          "<span class='bar' style='width:%.0fpx'></span></td></tr>",
                          Escape(name), TimeOfNs(ns), count > 0 ? Count(count) : "",
                          200 * ns / std::max(longest, 1.0));
  };
  bar("client: service time", client_ns, 0);
  for (const MetricMean& mean : means) bar(mean.name, mean.mean, mean.count);
  return absl::StrCat(html, "</table>");
}

std::string MetricsHtml(const RunResult& result) {
  if (result.metrics_before.empty() && result.metrics_after.empty()) return "";
  std::string html = absl::StrCat("<h2>The broker's own metrics</h2>", PhasesHtml(result),
                                  "<details><summary>Everything that changed</summary><table>"
                                  "<tr><th></th><th>before</th><th>after</th><th>change</th></tr>");
  for (const MetricChange& change : MetricChanges(result.metrics_before, result.metrics_after)) {
    absl::StrAppendFormat(
        &html, "<tr><td><code>%s</code></td><td>%g</td><td>%g</td><td>%g</td></tr>",
        Escape(change.name), change.before, change.after, change.after - change.before);
  }
  return absl::StrCat(html, "</table></details>");
}

}  // namespace

std::string HtmlText(const RunResult& result) {
  const time_t started = result.started_unix_ms / 1000;
  tm parts = {};
  gmtime_r(&started, &parts);
  char when[64];
  strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &parts);
  const bool valid = result.valid();
  std::string html =
      absl::StrCat(kHead, "<h1>gyre_load <span class='verdict ", valid ? "ok" : "bad", "'>",
                   valid ? "VALID" : "INVALID", "</span></h1>");
  if (!valid) absl::StrAppend(&html, "<p>", Escape(VerdictText(result)), "</p>");
  absl::StrAppend(&html, "<p class='soft'>", when, "; ", Escape(result.machine), "</p><pre>",
                  Escape(TableText(result)), "</pre>");
  for (const PartResult& part : result.parts) absl::StrAppend(&html, PartHtml(part));
  absl::StrAppend(&html, MetricsHtml(result), "</body></html>\n");
  return html;
}

}  // namespace gyre::load
