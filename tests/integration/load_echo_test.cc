// gyre_load's echo, connect and idle against servers that stall, drop, repeat, reorder,
// damage and close: each lie is seen, and counted right.
#include <unistd.h>

#include <atomic>
#include <climits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/integration/load_harness.h"
#include "tests/integration/network_harness.h"
#include "tools/load/report/table.h"

namespace gyre::load {
namespace {

using testing::TestServer;

// 400 echoes; all of them may be under way at once.
const std::vector<std::string> kShort = {"--workload=echo", "--rate=1000",    "--duration=400ms",
                                         "--warmup=0",      "--pipeline=400", "--drain=20s",
                                         "--record_size=64"};

PartResult RunShort(uint16_t port, const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = kShort;
  flags.insert(flags.end(), more.begin(), more.end());
  absl::StatusOr<RunResult> result = RunLoad(port, flags);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_EQ(result->parts[0].reasons.empty(), result->valid());
  return result->parts[0];
}

std::string Reasons(const PartResult& part) { return absl::StrJoin(part.reasons, "; "); }

TEST(LoadEchoTest, AnHonestServerMakesAValidRun) {
  TestServer server("", testing::Echo);
  absl::StatusOr<RunResult> result = RunLoad(
      server.port(), {"--workload=echo", "--connections=8", "--threads=2", "--duration=300ms",
                      "--warmup=100ms", "--pipeline=3", "--record_size=uniform:1:3000"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->valid()) << VerdictText(*result);
  const PartResult& part = result->parts[0];
  EXPECT_GT(part.totals.operations_in_window, 0);
  EXPECT_EQ(part.totals.latency.count(), part.totals.operations);
  EXPECT_GE(part.checks.checked, part.totals.operations);
}

TEST(LoadEchoTest, AStallShowsInTheLatencyFromTheIntendedStart) {
  PlainPeer peer(EchoWith([](int64_t n, const std::string& frame) {
    if (n == 300) usleep(1'000'000);
    return std::vector<std::string>{frame};
  }));
  absl::StatusOr<RunResult> result =
      RunLoad(peer.port(), {"--workload=echo", "--rate=500", "--duration=2s", "--warmup=100ms",
                            "--pipeline=1", "--record_size=64"});
  ASSERT_TRUE(result.ok()) << result.status();
  const Totals& totals = result->parts[0].totals;
  // Five hundred of a thousand operations were due during the second that stood still. A
  // generator that waits for its answers sees one of them.
  EXPECT_GE(totals.latency.Percentile(75), 400'000'000);
  EXPECT_GE(totals.latency.max(), 1'000'000'000);
  EXPECT_LT(totals.service.Percentile(75), totals.latency.Percentile(75) / 2);
  // And it says whose fault the late starts were.
  EXPECT_GE(totals.delay.Percentile(75), 400'000'000);
  EXPECT_LT(totals.own_delay.Percentile(75), totals.delay.Percentile(75) / 2);
}

TEST(LoadEchoTest, AnswersThatDoNotComeAreLost) {
  PlainPeer peer(EchoWith([](int64_t n, const std::string& frame) {
    return n == 10 || n == 11 || n == 200 ? std::vector<std::string>{}
                                          : std::vector<std::string>{frame};
  }));
  const PartResult part = RunShort(peer.port(), {"--drain=2s"});
  EXPECT_EQ(part.checks.lost, 3);
  EXPECT_EQ(part.checks.duplicated + part.checks.reordered + part.checks.corrupted, 0);
  EXPECT_TRUE(absl::StrContains(Reasons(part), "3 lost")) << Reasons(part);
}

TEST(LoadEchoTest, AnswersThatComeTwiceAreDuplicated) {
  PlainPeer peer(EchoWith([](int64_t n, const std::string& frame) {
    return std::vector<std::string>(n % 100 == 50 ? 2 : 1, frame);
  }));
  const PartResult part = RunShort(peer.port());
  EXPECT_EQ(part.checks.duplicated, 4);
  EXPECT_EQ(part.checks.lost, 0);
  EXPECT_TRUE(absl::StrContains(Reasons(part), "4 duplicated")) << Reasons(part);
}

TEST(LoadEchoTest, AnswersOutOfOrderAreReordered) {
  std::string held;
  PlainPeer peer(EchoWith([&held](int64_t n, const std::string& frame) {
    if (n % 100 == 20) {
      held = frame;
      return std::vector<std::string>{};
    }
    if (n % 100 == 21) return std::vector<std::string>{frame, held};
    return std::vector<std::string>{frame};
  }));
  const PartResult part = RunShort(peer.port());
  EXPECT_EQ(part.checks.reordered, 4);
  EXPECT_EQ(part.checks.lost + part.checks.duplicated, 0);
  EXPECT_TRUE(absl::StrContains(Reasons(part), "4 reordered")) << Reasons(part);
}

TEST(LoadEchoTest, AnswersThatDifferAreCorrupted) {
  PlainPeer peer(EchoWith([](int64_t n, const std::string& frame) {
    std::string changed = frame;
    if (n % 80 == 7) changed[static_cast<size_t>(n) % changed.size()] ^= 1;
    return std::vector<std::string>{changed};
  }));
  const PartResult part = RunShort(peer.port());
  EXPECT_EQ(part.checks.corrupted, 5);
  EXPECT_EQ(part.checks.lost + part.checks.duplicated + part.checks.reordered, 0);
  EXPECT_TRUE(absl::StrContains(Reasons(part), "5 corrupted")) << Reasons(part);
}

TEST(LoadEchoTest, AConnectionThatIsClosedIsNotPassedOverInSilence) {
  std::atomic<int> served{0};
  PlainPeer peer([&served](int fd) {
    std::string frame;
    // The first connection ends in the middle.
    const int limit = served++ == 0 ? 100 : INT_MAX;
    for (int n = 0; n < limit && PlainPeer::ReadFrame(fd, &frame); ++n) {
      if (!PlainPeer::Write(fd, testing::Framed(frame))) return;
    }
  });
  const PartResult part = RunShort(peer.port(), {"--pipeline=10"});
  EXPECT_EQ(part.lost_connections.count, 1);
  EXPECT_TRUE(absl::StrContains(Reasons(part), "1 connections were lost, the first so: "))
      << Reasons(part);
  EXPECT_GT(part.checks.checked, 100) << "it went on over a new one";
}

TEST(LoadEchoTest, ChurnConnectsAsksAndCloses) {
  TestServer server("", testing::Echo);
  for (const char* reset : {"--reset", "--noreset"}) {
    absl::StatusOr<RunResult> result =
        RunLoad(server.port(), {"--workload=connect", "--rate=200", "--duration=300ms",
                                "--warmup=0", "--connections=20", reset});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->parts[0].totals.operations, 60);
    EXPECT_EQ(result->parts[0].checks.checked, 60);
    EXPECT_EQ(result->parts[0].totals.error_count(), 0);
  }
  EXPECT_GE(server.Metric("network_connections_accepted_total"), 120);
}

TEST(LoadEchoTest, ChurnCountsWhatIsRefused) {
  int served = 0;
  PlainPeer peer([&served](int fd) {
    std::string frame;
    // Every fourth is closed without a word.
    if (++served % 4 != 0 && PlainPeer::ReadFrame(fd, &frame)) {
      PlainPeer::Write(fd, testing::Framed(frame));
      char end;
      recv(fd, &end, 1, 0);
    }
  });
  absl::StatusOr<RunResult> result =
      RunLoad(peer.port(), {"--workload=connect", "--rate=100", "--duration=400ms", "--warmup=0",
                            "--connections=10", "--drain=20s"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->parts[0].totals.error_count(), 10);
  EXPECT_FALSE(result->valid());
}

TEST(LoadEchoTest, IdleConnectionsAreKeptAndTheirCostIsReported) {
  TestServer server("", testing::Echo, [](SocketServerOptions& options) {
    options.sockets.listen_backlog_size = 512;
  });
  absl::StatusOr<RunResult> result = RunLoad(
      server.port(), {"--workload=idle", "--connections=300", "--threads=2", "--duration=200ms",
                      "--warmup=0", absl::StrCat("--server_pid=", getpid())});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->valid()) << VerdictText(*result);
  EXPECT_EQ(result->parts[0].open_connections, 300);
  EXPECT_GT(result->parts[0].memory_after.server_bytes, 0);
  EXPECT_GT(result->parts[0].memory_after.client_bytes, 0);
}

TEST(LoadEchoTest, WhatCannotRunSaysSoInOneLine) {
  const auto expect = [](uint16_t port, const char* workload, const char* words) {
    const absl::StatusOr<RunResult> result =
        RunLoad(port, {workload, "--timeout=300ms", "--duration=100ms"});
    ASSERT_FALSE(result.ok()) << words;
    EXPECT_TRUE(absl::StrContains(result.status().message(), words)) << result.status();
    EXPECT_FALSE(absl::StrContains(result.status().message(), "\n"));
  };
  uint16_t refused = 0;
  {
    PlainPeer peer([](int fd) {
      std::string frame;
      PlainPeer::ReadFrame(fd, &frame);
    });
    refused = peer.port();
    for (const char* workload : {"--workload=produce", "--workload=consume"}) {
      expect(peer.port(), workload, "closed by the peer");
    }
  }
  for (const char* workload :
       {"--workload=echo", "--workload=connect", "--workload=idle", "--workload=produce"}) {
    expect(refused, workload, "Connection refused");
  }
  PlainPeer hangs([](int fd) {
    char byte;
    while (recv(fd, &byte, 1, 0) > 0) {
    }
  });
  expect(hangs.port(), "--workload=produce", "no answer to ApiVersions within 300 ms");
  expect(hangs.port(), "--workload=connect", "not answered within 300 ms");
  PlainPeer web([](int fd) {
    std::string frame;
    PlainPeer::ReadFrame(fd, &frame);
    PlainPeer::Write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  expect(web.port(), "--workload=end-to-end", "what came is no frame");
  PlainPeer echo(
      EchoWith([](int64_t, const std::string& frame) { return std::vector<std::string>{frame}; }));
  expect(echo.port(), "--workload=produce", "not what a Kafka broker answers");
}

}  // namespace
}  // namespace gyre::load
