#include "engine/metrics/metric_registry.h"

#include <string>

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(MetricRegistryTest, ExposesCountersAndGaugesInPrometheusText) {
  MetricRegistry registry(1 << 12);
  Counter produce = registry.AddCounter("requests_total", "Requests read.", "api=\"Produce\"");
  Counter fetch = registry.AddCounter("requests_total", "Requests read.", "api=\"Fetch\"");
  Gauge connections = registry.AddGauge("connections", "Open connections.");
  produce.Add(3);
  fetch.Increment();
  connections.Increment();
  connections.Increment();
  connections.Decrement();
  EXPECT_EQ(registry.Exposition(),
            "# HELP connections Open connections.\n"
            "# TYPE connections gauge\n"
            "connections 1\n"
            "# HELP requests_total Requests read.\n"
            "# TYPE requests_total counter\n"
            "requests_total{api=\"Fetch\"} 1\n"
            "requests_total{api=\"Produce\"} 3\n");
}

TEST(MetricRegistryTest, ExposesHistogramsAsSummaries) {
  MetricRegistry registry(1 << 12);
  Histogram times = registry.AddHistogram("time_ns", "Time.", "api=\"Fetch\"");
  registry.AddHistogram("unused_ns", "Never recorded.");
  for (int i = 0; i < 100; ++i) times.Record(i < 99 ? 5 : 10);
  EXPECT_EQ(registry.Exposition(),
            "# HELP time_ns Time.\n"
            "# TYPE time_ns summary\n"
            "time_ns{api=\"Fetch\",quantile=\"0.5\"} 5\n"
            "time_ns{api=\"Fetch\",quantile=\"0.9\"} 5\n"
            "time_ns{api=\"Fetch\",quantile=\"0.99\"} 5\n"
            "time_ns{api=\"Fetch\",quantile=\"0.999\"} 10\n"
            "time_ns_sum{api=\"Fetch\"} 505\n"
            "time_ns_count{api=\"Fetch\"} 100\n");
}

TEST(MetricRegistryTest, OneHistogramIsToldTwiceInDifferentWays) {
  MetricRegistry registry(1 << 12);
  const Histogram times = registry.AddHistogram("totaltimems", "Total.", "request=\"Fetch\"",
                                                HistogramFormat::NanosecondsAsMilliseconds());
  registry.AddHistogramView("duration_seconds", "Total.", "request=\"Fetch\"", times,
                            HistogramFormat::NanosecondsAsBuckets());
  Histogram(times).Record(50'000);          // below every bound
  Histogram(times).Record(2'000'000);       // 2 ms
  Histogram(times).Record(60'000'000'000);  // beyond every bound
  const std::string text = registry.Exposition();
  EXPECT_NE(text.find("# TYPE duration_seconds histogram\n"), std::string::npos) << text;
  EXPECT_NE(text.find("duration_seconds_bucket{request=\"Fetch\",le=\"0.0001\"} 1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("duration_seconds_bucket{request=\"Fetch\",le=\"0.001\"} 1\n"),
            std::string::npos);
  EXPECT_NE(text.find("duration_seconds_bucket{request=\"Fetch\",le=\"0.0025\"} 2\n"),
            std::string::npos);
  EXPECT_NE(text.find("duration_seconds_bucket{request=\"Fetch\",le=\"30\"} 2\n"),
            std::string::npos);
  EXPECT_NE(text.find("duration_seconds_bucket{request=\"Fetch\",le=\"+Inf\"} 3\n"),
            std::string::npos);
  EXPECT_NE(text.find("duration_seconds_sum{request=\"Fetch\"} 60.00205\n"), std::string::npos);
  EXPECT_NE(text.find("totaltimems_sum{request=\"Fetch\"} 60002.05\n"), std::string::npos);
  EXPECT_NE(text.find("totaltimems_count{request=\"Fetch\"} 3\n"), std::string::npos);
}

class TestCollector final : public MetricCollector {
 public:
  void Collect(MetricSink& sink) override {
    ++calls;
    sink.Gauge("share", "A share.", MetricLabel("name", "a\"b\\c\nd"), 0.25);
    sink.Add(MetricType::kUntyped, "open_count", "Line one\nline two.", "", 1e15);
  }
  int calls = 0;
};

TEST(MetricRegistryTest, CollectorsTellWhatTheyKnowUntilTheyAreRemoved) {
  MetricRegistry registry(1 << 12);
  TestCollector collector;
  registry.AddCollector(&collector);
  EXPECT_EQ(registry.Exposition(),
            "# HELP open_count Line one\\nline two.\n"
            "# TYPE open_count untyped\n"
            "open_count 1000000000000000\n"
            "# HELP share A share.\n"
            "# TYPE share gauge\n"
            "share{name=\"a\\\"b\\\\c\\nd\"} 0.25\n");
  EXPECT_EQ(registry.Value("open_count"), 1'000'000'000'000'000);
  registry.RemoveCollector(&collector);
  EXPECT_EQ(registry.Exposition(), "");
  EXPECT_EQ(collector.calls, 2);
}

TEST(MetricRegistryTest, RegisteringTwiceGivesTheSameMetric) {
  MetricRegistry registry(1 << 12);
  Counter first = registry.AddCounter("frames_total", "Frames.");
  Counter second = registry.AddCounter("frames_total", "Frames.");
  first.Add(2);
  second.Add(3);
  EXPECT_EQ(first.Value(), 5);
  EXPECT_EQ(registry.Value("frames_total"), 5);
}

TEST(MetricRegistryTest, CallbackGaugesAreReadAtExposition) {
  MetricRegistry registry(1 << 12);
  int64_t depth = 7;
  registry.AddCallbackGauge(
      "queue_size", "Waiting requests.", "",
      [](const void* context) { return *static_cast<const int64_t*>(context); }, &depth);
  EXPECT_EQ(registry.Value("queue_size"), 7);
  depth = 9;
  EXPECT_NE(registry.Exposition().find("queue_size 9\n"), std::string::npos);
  registry.RemoveCallbackGauges(&depth);
  EXPECT_EQ(registry.Value("queue_size"), std::nullopt);
  EXPECT_EQ(registry.Exposition(), "");
}

TEST(MetricRegistryTest, AnUnknownNameHasNoValue) {
  MetricRegistry registry(1 << 12);
  registry.AddCounter("known", "", "a=\"1\"");
  EXPECT_EQ(registry.Value("unknown"), std::nullopt);
  EXPECT_EQ(registry.Value("known", "a=\"2\""), std::nullopt);
  EXPECT_EQ(registry.Value("known", "a=\"1\""), 0);
}

TEST(MetricRegistryTest, HandlesMadeByDefaultCountNothing) {
  Counter counter;
  Gauge gauge;
  counter.Increment();
  gauge.Decrement();
  EXPECT_EQ(counter.Value(), 0);
  EXPECT_EQ(gauge.Value(), 0);
}

}  // namespace
}  // namespace gyre
