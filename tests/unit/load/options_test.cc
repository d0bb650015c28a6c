#include "tools/load/options.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tools/load/help.h"
#include "tools/load/scenario.h"

namespace gyre::load {
namespace {

using Flags = std::vector<std::string>;

TEST(OptionsTest, FlagsTakeTheirValueInEitherWay) {
  const absl::StatusOr<Options> options =
      ParseArguments({"--workload=produce", "--rate", "2500.5", "--brokers=a:1,[::1]:2",
                      "--noverify", "--allow_reconnects", "--acks=all", "--duration=2m",
                      "--warmup=250ms", "--record_size=uniform:100:200", "--compression=zstd"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->workload, Workload::kProduce);
  EXPECT_EQ(options->rate, 2500.5);
  ASSERT_EQ(options->brokers.size(), 2u);
  EXPECT_EQ(options->brokers[1].first, "::1");
  EXPECT_EQ(options->brokers[1].second, 2);
  EXPECT_FALSE(options->verify);
  EXPECT_TRUE(options->allow_reconnects);
  EXPECT_EQ(options->acks, -1);
  EXPECT_EQ(options->duration_ns, 120'000'000'000);
  EXPECT_EQ(options->warmup_ns, 250'000'000);
  EXPECT_EQ(options->record_size.max_bytes(), 200);
  EXPECT_EQ(options->compression, Codec::kZstd);
  EXPECT_TRUE(CheckOptions(*options).ok());
}

TEST(OptionsTest, WhatIsWrongIsNamed) {
  const auto message = [](const Flags& flags) {
    const absl::StatusOr<Options> options = ParseArguments(flags);
    return std::string((options.ok() ? CheckOptions(*options) : options.status()).message());
  };
  const std::vector<std::pair<Flags, std::string>> cases = {
      {{"produce"}, "flags begin with --"},
      {{"--speed=1"}, "--speed: no such flag"},
      {{"--rate"}, "--rate: expected a number"},
      {{"--rate=-1"}, "--rate: expected a number"},
      {{"--rate=nan"}, "--rate: expected a number"},
      {{"--threads=0"}, "--threads: expected a whole number"},
      {{"--duration=1y"}, "--duration: expected a time"},
      {{"--acks=2"}, "--acks: expected all, 1 or 0"},
      {{"--verify=maybe"}, "--verify: expected true or false"},
      {{"--brokers=host"}, "--brokers: expected HOST:PORT"},
      {{"--brokers=host:70000"}, "--brokers: expected HOST:PORT"},
      {{"--compare", "a.json"}, "--compare: expected two files"},
      {{}, "--workload: say what to do"},
      {{"--workload=echo"}, "--brokers: HOST:PORT is needed"},
      {{"--workload=echo", "--brokers=a:1", "--threads=2"}, "need at least as many --connections"},
      {{"--workload=produce", "--brokers=a:1", "--record_size=10"}, "have no room"},
      {{"--workload=end-to-end", "--brokers=a:1", "--noverify"}, "reads its clock"},
      {{"--workload=idle", "--brokers=a:1", "--rate=5"}, "--rate: does not apply"},
      {{"--workload=echo", "--brokers=a:1", "--find_max"}, "--find_max needs --p99_ms"},
      {{"--workload=produce", "--brokers=a:1", "--idempotence=on", "--acks=1"}, "--acks=all"},
  };
  for (const auto& [flags, words] : cases) {
    EXPECT_TRUE(absl::StrContains(message(flags), words)) << message(flags) << " / " << words;
  }
}

TEST(OptionsTest, EveryFlagIsInTheHelp) {
  const std::string help = HelpText();
  for (const char* flag : {"workload",
                           "brokers",
                           "scenario",
                           "rate",
                           "arrivals",
                           "duration",
                           "warmup",
                           "drain",
                           "timeout",
                           "threads",
                           "connections",
                           "pipeline",
                           "seed",
                           "record_size",
                           "payload_file",
                           "keys",
                           "topic",
                           "partitions",
                           "replication_factor",
                           "create_topic",
                           "acks",
                           "compression",
                           "idempotence",
                           "batch_bytes",
                           "batch_records",
                           "linger",
                           "buffer_bytes",
                           "from",
                           "at_end",
                           "fetch_max_bytes",
                           "fetch_partition_bytes",
                           "fetch_min_bytes",
                           "fetch_max_wait_ms",
                           "verify",
                           "allow_reconnects",
                           "min_rate_percent",
                           "round_trip",
                           "reset",
                           "server_pid",
                           "find_max",
                           "p99_ms",
                           "step",
                           "json",
                           "report",
                           "metrics_url",
                           "progress",
                           "uring_disable",
                           "help"}) {
    EXPECT_TRUE(absl::StrContains(help, std::string("--") + flag)) << flag;
    Options options;
    EXPECT_FALSE(absl::StrContains(SetOption(flag, "", &options).message(), "no such flag"));
  }
}

TEST(ScenarioTest, SectionsStartFromTheCommandLine) {
  Options base;
  ASSERT_TRUE(SetOption("brokers", "127.0.0.1:9092", &base).ok());
  ASSERT_TRUE(SetOption("topic", "shared", &base).ok());
  const absl::StatusOr<std::vector<Options>> parts = ParseScenario(
      "# comment\n[writers]\nworkload = produce  # inline\nrate=100\n\n[readers]\n"
      "workload=consume\ntopic=own\n",
      base);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "writers");
  EXPECT_EQ((*parts)[0].rate, 100);
  EXPECT_EQ((*parts)[0].topic, "shared");
  EXPECT_EQ((*parts)[1].workload, Workload::kConsume);
  EXPECT_EQ((*parts)[1].topic, "own");
  EXPECT_EQ((*parts)[1].rate, 0);
}

TEST(ScenarioTest, AMistakeIsNamedByItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"rate=1\n", "line 1: flags come after a [name]"},
      {"[a]\nspeed=1\n", "line 2: --speed: no such flag"},
      {"[a]\n\nduration=5s\n", "line 3: duration is the whole run's"},
      {"# nothing\n", "there is no [section]"},
  };
  for (const auto& [text, words] : cases) {
    const absl::Status status = ParseScenario(text, Options()).status();
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }
}

}  // namespace
}  // namespace gyre::load
