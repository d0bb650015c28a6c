// gyre_load's produce, consume and end-to-end against a broker that lies: each lie is
// seen, and counted right.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/random.h"
#include "gtest/gtest.h"
#include "tests/integration/load_harness.h"
#include "tools/load/report/html.h"
#include "tools/load/report/json.h"
#include "tools/load/report/table.h"

namespace gyre::load {
namespace {

using Treatment = LyingBroker::Treatment;

// 300 records, each a batch of its own, into two partitions.
const std::vector<std::string> kShort = {"--rate=1000",    "--duration=300ms",  "--warmup=0",
                                         "--partitions=2", "--batch_records=1", "--record_size=100",
                                         "--drain=20s",    "--timeout=20s"};

RunResult RunAgainst(LyingBroker& broker, const std::string& workload,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = kShort;
  flags.push_back(absl::StrCat("--workload=", workload));
  flags.insert(flags.end(), more.begin(), more.end());
  absl::StatusOr<RunResult> result = RunLoad(broker.port(), flags);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : RunResult{.parts = {PartResult()}};
}

// The verdict without what a busy machine may add to it.
std::string Checks(const RunResult& result) {
  const CheckCounts& checks = result.parts[0].checks;
  return absl::StrCat(checks.lost, " lost ", checks.duplicated, " duplicated ", checks.reordered,
                      " reordered ", checks.corrupted, " corrupted");
}

// The treatment for every n-th batch in hundred.
std::function<Treatment(int64_t)> Every(int64_t of_hundred, Treatment treatment) {
  return [=](int64_t n) { return n % 100 == of_hundred ? treatment : Treatment::kKeep; };
}

class LoadKafkaTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Workload, LoadKafkaTest, ::testing::Values("produce", "end-to-end"),
                         [](const auto& info) {
                           return std::string(info.param) == "produce" ? "Produce" : "EndToEnd";
                         });

TEST_P(LoadKafkaTest, AnHonestBrokerMakesAValidRun) {
  LyingBroker broker([](int64_t) { return Treatment::kKeep; });
  const RunResult result = RunAgainst(broker, GetParam(), {"--min_rate_percent=0"});
  EXPECT_TRUE(result.valid()) << VerdictText(result);
  EXPECT_EQ(result.parts[0].checks.checked, 300);
  EXPECT_EQ(result.parts[0].totals.operations, 300);
  EXPECT_EQ(broker.kept_count(), 300);
}

TEST_P(LoadKafkaTest, AcknowledgedRecordsThatAreGoneAreLost) {
  LyingBroker broker(Every(40, Treatment::kDrop));
  const RunResult result = RunAgainst(broker, GetParam());
  EXPECT_EQ(Checks(result), "3 lost 0 duplicated 0 reordered 0 corrupted");
  EXPECT_TRUE(absl::StrContains(VerdictText(result), "3 lost")) << VerdictText(result);
}

TEST_P(LoadKafkaTest, RecordsThatAreThereTwiceAreDuplicated) {
  LyingBroker broker(Every(40, Treatment::kDuplicate));
  const RunResult result = RunAgainst(broker, GetParam());
  EXPECT_EQ(Checks(result), "0 lost 3 duplicated 0 reordered 0 corrupted");
  EXPECT_TRUE(absl::StrContains(VerdictText(result), "3 duplicated")) << VerdictText(result);
}

TEST(LoadKafkaProduceTest, RecordsOutOfOrderAreReordered) {
  // Read back: a consumer beside it may have seen the right order before.
  LyingBroker broker(Every(40, Treatment::kSwap));
  const RunResult result = RunAgainst(broker, "produce");
  EXPECT_EQ(Checks(result), "0 lost 0 duplicated 3 reordered 0 corrupted");
  EXPECT_TRUE(absl::StrContains(VerdictText(result), "3 reordered")) << VerdictText(result);
}

TEST_P(LoadKafkaTest, ChangedRecordsAreCorruptedAlsoUnderARightCrc) {
  for (const Treatment treatment : {Treatment::kFlip, Treatment::kFlipAndSeal}) {
    LyingBroker broker(Every(40, treatment));
    const RunResult result = RunAgainst(broker, GetParam());
    // What is there but cannot be recognised is missing as well.
    EXPECT_EQ(Checks(result), "3 lost 0 duplicated 0 reordered 3 corrupted");
    EXPECT_TRUE(absl::StrContains(VerdictText(result), "3 corrupted")) << VerdictText(result);
  }
}

TEST_P(LoadKafkaTest, OneBadByteInACompressedBatchCondemnsTheBatch) {
  LyingBroker broker([](int64_t n) { return n == 3 ? Treatment::kFlip : Treatment::kKeep; });
  const RunResult result =
      RunAgainst(broker, GetParam(), {"--batch_records=5", "--linger=10s", "--compression=gzip"});
  EXPECT_EQ(result.parts[0].checks.corrupted, 5);
  EXPECT_FALSE(result.valid());
}

TEST_P(LoadKafkaTest, AClosedConnectionIsRepairedAndReported) {
  LyingBroker broker(
      [](int64_t n) { return n == 50 ? Treatment::kCloseBefore : Treatment::kKeep; });
  const RunResult result = RunAgainst(broker, GetParam());
  EXPECT_EQ(Checks(result), "0 lost 0 duplicated 0 reordered 0 corrupted");
  EXPECT_EQ(result.parts[0].unanswered, 0);
  EXPECT_GE(result.parts[0].lost_connections.count, 1);
  EXPECT_GE(result.parts[0].sent_again, 1);
  EXPECT_TRUE(absl::StrContains(VerdictText(result), "connections were lost"))
      << VerdictText(result);
}

TEST_P(LoadKafkaTest, ARetryExplainsItsDuplicatesButOnlyWithoutIdempotence) {
  for (const bool idempotent : {false, true}) {
    LyingBroker broker(
        [](int64_t n) { return n == 50 ? Treatment::kCloseAfter : Treatment::kKeep; });
    broker.offers_identities = idempotent;
    const RunResult result = RunAgainst(
        broker, GetParam(), {"--allow_reconnects", "--min_rate_percent=0", "--pipeline=1"});
    const PartResult& part = result.parts[0];
    EXPECT_EQ(part.idempotent, idempotent);
    EXPECT_EQ(part.checks.lost, 0);
    // The broker took the batch twice: it may, if it promised nothing.
    EXPECT_EQ(part.checks.duplicated, idempotent ? 1 : 0);
    EXPECT_EQ(part.checks.duplicated_by_retry, idempotent ? 0 : 1);
    EXPECT_EQ(result.valid(), !idempotent) << VerdictText(result);
    EXPECT_EQ(absl::StrContains(TableText(result), "no InitProducerId"), !idempotent);
  }
}

TEST_P(LoadKafkaTest, AStallShowsInThePercentiles) {
  LyingBroker broker([](int64_t n) { return n == 60 ? Treatment::kStall : Treatment::kKeep; });
  const RunResult result =
      RunAgainst(broker, GetParam(), {"--rate=200", "--duration=1500ms", "--pipeline=1"});
  const Totals& totals = result.parts[0].totals;
  // Two thirds of the records were due in the second that stood still.
  EXPECT_GE(totals.latency.Percentile(75), 400'000'000);
  EXPECT_GE(totals.latency.max(), 1'000'000'000);
}

TEST_P(LoadKafkaTest, GarbageInAnAnswerEndsNeitherTheRunNorTheProgram) {
  Random random(20);
  LyingBroker broker([](int64_t) { return Treatment::kKeep; });
  broker.set_garble([&random](std::string* frame) {
    if (!random.OneIn(4)) return;
    // Behind the size and the correlation id; sometimes the size, too.
    const size_t first = random.OneIn(5) ? 0 : 8;
    for (uint64_t left = random.Below(4) + 1; left > 0; --left) {
      const size_t at = first + random.Below(std::min<uint64_t>(frame->size() - first, 200));
      (*frame)[at] = static_cast<char>(random.Next());
    }
  });
  const RunResult result = RunAgainst(broker, GetParam(), {"--drain=200ms", "--timeout=300ms"});
  EXPECT_FALSE(result.valid());
  EXPECT_FALSE(result.parts[0].reasons.empty());
}

TEST(LoadKafkaConsumeTest, WhatAnEarlierRunWroteIsCheckedByItself) {
  LyingBroker broker(Every(40, Treatment::kDrop));
  RunAgainst(broker, "produce", {"--noverify"});
  const RunResult result = RunAgainst(broker, "consume", {"--rate=0", "--duration=20s"});
  EXPECT_EQ(Checks(result), "3 lost 0 duplicated 0 reordered 0 corrupted");
  EXPECT_EQ(result.parts[0].totals.operations_in_window, 297);
}

TEST(LoadKafkaConsumeTest, KeysKeepTheirPartitionAndThreadsShareTheWork) {
  LyingBroker broker([](int64_t) { return Treatment::kKeep; });
  const RunResult result = RunAgainst(
      broker, "end-to-end",
      {"--keys=20", "--connections=4", "--threads=2", "--partitions=5", "--min_rate_percent=0"});
  EXPECT_TRUE(result.valid()) << VerdictText(result);
  EXPECT_EQ(result.parts[0].checks.checked, 300);
}

TEST(LoadKafkaConsumeTest, ATopicThatCannotBeCreatedIsOneLine) {
  LyingBroker broker([](int64_t) { return Treatment::kKeep; });
  broker.create_topic_error = ErrorCode::kPolicyViolation;
  const absl::StatusOr<RunResult> refused =
      RunLoad(broker.port(), {"--workload=produce", "--duration=1s"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(),
            "topic gyre_load cannot be created: POLICY_VIOLATION: as the test wishes");
  const absl::StatusOr<RunResult> missing =
      RunLoad(broker.port(), {"--workload=consume", "--duration=1s"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().message(), "topic gyre_load is not there");
}

TEST(LoadKafkaConsumeTest, EveryReportTellsTheVerdict) {
  LyingBroker broker(Every(40, Treatment::kDrop));
  const RunResult result = RunAgainst(broker, "produce");
  const std::string json = JsonText(result, nullptr);
  EXPECT_TRUE(absl::StrContains(json, "\"valid\": false"));
  EXPECT_TRUE(absl::StrContains(json, "\"lost\": 3"));
  const std::string html = HtmlText(result);
  EXPECT_TRUE(absl::StrContains(html, "INVALID"));
  EXPECT_TRUE(absl::StrContains(html, "<polyline"));
  EXPECT_FALSE(absl::StrContains(html, "src=")) << "it needs nothing from elsewhere";
  EXPECT_TRUE(absl::StrContains(TableText(result), "300 records: 3 lost") ||
              absl::StrContains(TableText(result), "297 records: 3 lost"));
}

}  // namespace
}  // namespace gyre::load
