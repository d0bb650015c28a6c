// What reports are made of: comparing, the broker's metrics, charts, units, the board.
#include <cmath>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "gtest/gtest.h"
#include "tools/load/report/chart.h"
#include "tools/load/report/compare.h"
#include "tools/load/report/metrics_page.h"
#include "tools/load/report/table.h"
#include "tools/load/report/units.h"
#include "tools/load/stats.h"

namespace gyre::load {
namespace {

std::vector<double> Noise(Random& random, double mean, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(mean * (0.9 + 0.2 * random.NextDouble()));
  return values;
}

TEST(CompareTest, ARealDifferenceIsToldAndNoiseIsNot) {
  Random random(1);
  const Ratio twice = CompareSamples(Noise(random, 100, 30), Noise(random, 200, 30));
  EXPECT_NEAR(twice.ratio, 2, 0.1);
  EXPECT_LE(twice.low, twice.ratio);
  EXPECT_GE(twice.high, twice.ratio);
  EXPECT_TRUE(twice.is_different());
  const std::vector<double> a = Noise(random, 100, 30);
  const Ratio same = CompareSamples(a, Noise(random, 100, 30));
  EXPECT_FALSE(same.is_different()) << same.low << " " << same.high;
  EXPECT_EQ(CompareSamples({5}, {10}).ratio, 2);
  EXPECT_EQ(CompareSamples({}, {10}).ratio, 0);
}

TEST(CompareTest, AFileThatIsNoneIsNamed) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/not.json");
  for (const char* content : {"", "{", "[]", "{\"format\": 7}", "{\"format\": \"gyre_load 1\"}"}) {
    std::ofstream(path) << content;
    EXPECT_FALSE(CompareFiles({path, path}).ok()) << content;
  }
  EXPECT_FALSE(CompareFiles({"/no/such/file", path}).ok());
}

TEST(MetricsPageTest, ReadsPrometheusTextAndLeavesTheRest) {
  const MetricValues values = ParseMetrics(
      "# HELP a b\n# TYPE a counter\na 3\nb{x=\"y z\",q=\"}\"} 2.5e3 1700000000\n\nbroken\n"
      "c NaN\nd{le=\"+Inf\"} 7\r\n");
  EXPECT_EQ(values.size(), 3u);
  EXPECT_EQ(values.at("a"), 3);
  EXPECT_EQ(values.at("b{x=\"y z\",q=\"}\"}"), 2500);
  EXPECT_EQ(values.at("d{le=\"+Inf\"}"), 7);
}

TEST(MetricsPageTest, TellsWhatChangedAndTheMeansOfIt) {
  const MetricValues before = {{"t_sum{r=\"P\"}", 10}, {"t_count{r=\"P\"}", 2}, {"same", 1}};
  const MetricValues after = {{"t_sum{r=\"P\"}", 40},    {"t_count{r=\"P\"}", 8}, {"same", 1},
                              {"t_bucket{le=\"1\"}", 9}, {"new_sum", 6},          {"new_count", 3},
                              {"idle_sum", 0},           {"idle_count", 0}};
  const std::vector<MetricMean> means = MetricMeans(before, after);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].name, "new");
  EXPECT_EQ(means[0].mean, 2);
  EXPECT_EQ(means[1].name, "t{r=\"P\"}");
  EXPECT_EQ(means[1].mean, 5);
  EXPECT_EQ(means[1].count, 6);
  for (const MetricChange& change : MetricChanges(before, after)) {
    EXPECT_NE(change.name, "same");
    EXPECT_FALSE(absl::StrContains(change.name, "_bucket"));
  }
}

TEST(ChartTest, DrawsNumbersAndNothingElse) {
  Chart chart{
      .title = "<&>", .x_label = "x", .lines = {}, .log_y = true, .x_marks = {}, .show_y = Count};
  EXPECT_EQ(ChartSvg(chart), "");
  chart.lines.push_back({.name = "one", .points = {{0, 0}, {1, 10}, {2, 1000}}, .dashed = false});
  const std::string svg = ChartSvg(chart);
  EXPECT_TRUE(absl::StrContains(svg, "&lt;&amp;&gt;"));
  EXPECT_FALSE(absl::StrContains(svg, "nan"));
  EXPECT_FALSE(absl::StrContains(svg, "inf"));
}

TEST(UnitsTest, ThreeDigitsCount) {
  EXPECT_EQ(Time(0), "0 ns");
  EXPECT_EQ(Time(999), "999 ns");
  EXPECT_EQ(Time(12'345), "12.3 us");
  EXPECT_EQ(Time(1'000'000), "1.00 ms");
  EXPECT_EQ(Time(72'000'000'000), "72.0 s");
  EXPECT_EQ(Count(999), "999");
  EXPECT_EQ(Count(20'000), "20.0k");
  EXPECT_EQ(Bytes(1.5e6), "1.50 MB");
}

TEST(RecorderTest, TheWarmUpIsNotMeasuredAndEverySecondIsKept) {
  Board board;
  const Window window = {0, 1'000'000'000, 4'000'000'000};
  Recorder recorder(window, board);
  for (int64_t ms = 0; ms < 5000; ms += 10) {
    // Due every 10 ms until the end of the window, done half a second later.
    if (ms < 4500) recorder.Done(ms * 1'000'000 - 500'000'000, ms * 1'000'000, ms * 1'000'000, 100);
  }
  recorder.Finish();
  // Intended within [1 s, 4 s): 300 of them; done within: those of [1 s, 4 s) as well.
  EXPECT_EQ(recorder.totals().operations, 300);
  EXPECT_EQ(recorder.totals().operations_in_window, 300);
  EXPECT_EQ(recorder.totals().latency.Percentile(50), 500'000'000);
  const std::vector<SecondSummary> seconds = board.Summaries();
  ASSERT_EQ(seconds.size(), 5u);
  EXPECT_EQ(seconds[0].second, -1);
  for (const SecondSummary& second : seconds) {
    EXPECT_EQ(second.operations, second.second == 3 ? 50 : 100);
    EXPECT_EQ(second.bytes, second.operations * 100);
  }
}

TEST(BoardTest, LongRunsKeepTheirSecondsWithoutTheirHistograms) {
  Board board;
  for (int64_t second = 0; second < 100; ++second) {
    Second stats;
    stats.operations = 1;
    stats.latency.Record(second + 1);
    board.Publish(second, stats);
    board.Publish(second, stats);  // another thread
  }
  const std::vector<SecondSummary> seconds = board.Summaries();
  ASSERT_EQ(seconds.size(), 100u);
  for (const SecondSummary& second : seconds) {
    EXPECT_EQ(second.operations, 2);
    EXPECT_EQ(second.max_ns, second.second + 1);
  }
}

TEST(VerdictTest, EveryDefectIsAReason) {
  const auto reason = [](auto change) {
    RunResult result;
    PartResult& part = result.parts.emplace_back();
    part.measured_s = 1;
    part.totals.operations_in_window = 100;
    change(part);
    Judge(&result);
    EXPECT_EQ(result.valid(), VerdictText(result) == "VALID");
    return VerdictText(result);
  };
  EXPECT_EQ(reason([](PartResult&) {}), "VALID");
  EXPECT_EQ(reason([](PartResult& p) { p.checks.lost = 2; }), "INVALID: 2 lost");
  EXPECT_EQ(reason([](PartResult& p) { p.checks.corrupted = 1; }), "INVALID: 1 corrupted");
  EXPECT_EQ(reason([](PartResult& p) { p.unanswered = 3; }),
            "INVALID: 3 operations were never answered");
  EXPECT_EQ(reason([](PartResult& p) {
              p.lost_connections.Add("reset");
              LostConnections others;
              others.Add("closed");
              p.lost_connections.Add(others);
            }),
            "INVALID: 2 connections were lost, the first so: reset");
  EXPECT_EQ(reason([](PartResult& p) {
              p.lost_connections.Add("reset");
              p.allow_reconnects = true;
            }),
            "VALID");
  EXPECT_EQ(reason([](PartResult& p) { p.totals.errors["x"] = 4; }), "INVALID: 4 errors: x");
  EXPECT_EQ(reason([](PartResult& p) { p.totals.operations_in_window = 0; }),
            "INVALID: nothing was measured");
  EXPECT_TRUE(absl::StrContains(reason([](PartResult& p) {
                                  p.rate_asked = 200;
                                  p.min_rate_percent = 99;
                                }),
                                "the schedule was not kept: 100/s of 200/s"));
}

}  // namespace
}  // namespace gyre::load
