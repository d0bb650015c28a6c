// Muting and throttling over real rings: what Kafka's SocketServerTest asserts about
// throttled and muted channels, and what a quota needs beside it.
//
// No test here measures time. That a throttling lasts is shown by what does not
// happen until its end is given (ThrottleToken) or by a duration no test waits for.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/network_modes.h"

namespace gyre::testing {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kHourNs = 3'600'000 * kMs;
constexpr char kThrottled[] = "network_throttled_connections";
constexpr char kFrames[] = "network_frames_received_total";

// The tokens of throttlings that a test ends itself.
class Tokens {
 public:
  void Add(ThrottleToken token) {
    MutexLock lock(mutex_);
    tokens_.push_back(std::move(token));
  }
  size_t size() {
    MutexLock lock(mutex_);
    return tokens_.size();
  }
  void EndAll() {
    MutexLock lock(mutex_);
    tokens_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<ThrottleToken> tokens_ ABSL_GUARDED_BY(mutex_);
};

class ThrottleTest : public NetworkModeTest {
 protected:
  // Answers by the frame's words: "hold" later, "none" with nothing, "close" by
  // closing, else with itself; "token" throttles until tokens_ end it, "hour" and
  // "tick" for such a time.
  void Start(RequestPtr request) {
    const std::string frame(request->frame());
    const auto says = [&](absl::string_view word) {
      return frame.find(std::string(word)) != std::string::npos;
    };
    if (says("token")) tokens_.Add(request->StartThrottling(5 * kMs));
    if (says("hour")) request->Throttle(kHourNs);
    if (says("tick")) request->Throttle(kMs);
    if (says("hold")) return held_.Add(std::move(request));
    if (says("none")) {
      silent_.fetch_add(1);
      return request.ReplyNothing();
    }
    if (says("close")) return request.CloseConnection("asked for it");
    Echo(std::move(request));
  }
  std::unique_ptr<TestServer> ServeThrottled(
      const std::function<void(SocketServerOptions&)>& change = {}) {
    return Serve([this](RequestPtr request) { Start(std::move(request)); }, change);
  }
  void ReleaseHeld() {
    for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
  }
  // What was sent lies at the server, all of it, and only `frames` were taken.
  static void ExpectTaken(const TestServer& server, int64_t sent_bytes, int64_t frames) {
    ASSERT_TRUE(server.AwaitMetric("network_received_bytes_total", sent_bytes));
    EXPECT_EQ(server.Metric(kFrames), frames);
  }

  Held held_;
  Tokens tokens_;
  std::atomic<int> silent_{0};
};

INSTANTIATE_TEST_SUITE_P(Modes, ThrottleTest, AllNetworkModes(), NameOfMode);

TEST_P(ThrottleTest, TheAnswerLeavesAtOnceAndTheNextRequestWaitsForTheEnd) {
  auto server = ServeThrottled();
  Client client(server->port());
  const std::string stream = Framed("a token") + Framed("b");
  client.Send(stream);
  EXPECT_EQ(client.ReadFrame(), "a token");
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  ExpectTaken(*server, static_cast<int64_t>(stream.size()), 1);
  EXPECT_FALSE(client.Readable(30));
  tokens_.EndAll();
  EXPECT_EQ(client.ReadFrame(), "b");
  EXPECT_TRUE(AwaitTrue([&] { return server->Metric(kThrottled) == 0; }));
  EXPECT_EQ(server->Metric("network_throttles_total"), 1);
}

TEST_P(ThrottleTest, AThrottlingThatIsOverBeforeTheAnswerHoldsNothingUp) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.Send(Framed("hold token") + Framed("b"));
  ASSERT_TRUE(held_.Await(1));
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  tokens_.EndAll();
  ASSERT_TRUE(AwaitTrue([&] { return server->Metric(kThrottled) == 0; }));
  // Still one at a time: the answer is due.
  EXPECT_EQ(server->Metric(kFrames), 1);
  ReleaseHeld();
  EXPECT_EQ(client.ReadFrame(), "hold token");
  EXPECT_EQ(client.ReadFrame(), "b");
}

TEST_P(ThrottleTest, NoAnswerIsAnAnswerTooForTheThrottled) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.Send(Framed("none token") + Framed("b"));
  ASSERT_TRUE(AwaitTrue([&] { return silent_ == 1; }));
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(server->Metric(kFrames), 1);
  tokens_.EndAll();
  EXPECT_EQ(client.ReadFrame(), "b");
}

TEST_P(ThrottleTest, NoAnswerAfterTheThrottlingIsOverLetsTheNextRequestGo) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.Send(Framed("hold token") + Framed("b"));
  ASSERT_TRUE(held_.Await(1));
  tokens_.EndAll();
  ASSERT_TRUE(AwaitTrue([&] { return server->Metric(kThrottled) == 0; }));
  for (RequestPtr& request : held_.TakeAll()) request.ReplyNothing();
  EXPECT_EQ(client.ReadFrame(), "b");
}

TEST_P(ThrottleTest, TheProcessorsOwnTimerEndsAThrottlingWithADuration) {
  // With connections that never expire, and with those whose deadline is a later one.
  for (const int64_t idle_ms : {-1, 600'000}) {
    auto server = ServeThrottled([&](SocketServerOptions& options) {
      options.processor.connection.connections_max_idle_ms = idle_ms;
    });
    Client client(server->port());
    std::string stream;
    for (int i = 0; i < 20; ++i) {
      stream += Framed(absl::StrCat(i % 2 == 0 ? "tick " : "none tick ", i));
    }
    client.Send(stream + Framed("last"));
    for (int i = 0; i < 20; i += 2) ASSERT_EQ(client.ReadFrame(), absl::StrCat("tick ", i));
    EXPECT_EQ(client.ReadFrame(), "last");
    EXPECT_EQ(server->Metric("network_throttles_total"), 20);
    EXPECT_EQ(server->Metric(kThrottled), 0);
  }
}

TEST_P(ThrottleTest, ThrottlingsOfPipelinedRequestsEndWithTheLastOfThem) {
  auto server = ServeThrottled([](SocketServerOptions& options) {
    options.processor.connection.max_in_flight_requests_per_connection = 4;
  });
  Client client(server->port());
  client.Send(Framed("hold tick") + Framed("token 1") + Framed("hold token 2"));
  ASSERT_TRUE(held_.Await(2));
  ASSERT_TRUE(server->AwaitMetric("network_throttles_total", 3));
  client.SendFrame("b");
  ReleaseHeld();
  EXPECT_EQ(client.ReadFrame(), "hold tick");
  EXPECT_EQ(client.ReadFrame(), "token 1");
  EXPECT_EQ(client.ReadFrame(), "hold token 2");
  EXPECT_FALSE(client.Readable(30));
  tokens_.EndAll();
  EXPECT_EQ(client.ReadFrame(), "b");
  EXPECT_EQ(server->Metric(kThrottled), 0);
}

TEST_P(ThrottleTest, WhileThrottledPipeliningFallsBackToOneInFlight) {
  auto server = ServeThrottled([](SocketServerOptions& options) {
    options.processor.connection.max_in_flight_requests_per_connection = 8;
  });
  Client client(server->port());
  client.SendFrame("token");
  EXPECT_EQ(client.ReadFrame(), "token");
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  std::string stream;
  for (int i = 0; i < 5; ++i) stream += Framed(absl::StrCat("hold ", i));
  client.Send(stream);
  ExpectTaken(*server, static_cast<int64_t>(Framed("token").size() + stream.size()), 1);
  tokens_.EndAll();
  // One alone, to see whether it is throttled again; then the others together.
  ASSERT_TRUE(held_.Await(1));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(server->Metric(kFrames), 2);
  ReleaseHeld();
  EXPECT_EQ(client.ReadFrame(), "hold 0");
  ASSERT_TRUE(held_.Await(4));
  ReleaseHeld();
  for (int i = 1; i < 5; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
}

TEST_P(ThrottleTest, OneThrottledConnectionLeavesTheOthersAlone) {
  auto server =
      ServeThrottled([](SocketServerOptions& options) { options.num_network_threads = 1; });
  Client throttled(server->port());
  throttled.Send(Framed("hour") + Framed("never"));
  EXPECT_EQ(throttled.ReadFrame(), "hour");
  Client other(server->port());
  for (int i = 0; i < 50; ++i) {
    other.SendFrame(absl::StrCat(i));
    ASSERT_EQ(other.ReadFrame(), absl::StrCat(i));
  }
  EXPECT_FALSE(throttled.Readable(0));
}

// --- ends of connections ---------------------------------------------------------------

TEST_P(ThrottleTest, ARudePeerIsNoticedWhileThrottled) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.SendFrame("hour");
  EXPECT_EQ(client.ReadFrame(), "hour");
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  client.Reset();
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(server->Metric(kThrottled), 0);
}

TEST_P(ThrottleTest, APeerThatClosesIsNoticedWhileThrottled) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.SendFrame("hour");
  EXPECT_EQ(client.ReadFrame(), "hour");
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  client.Close();
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(server->Metric(kThrottled), 0);
}

TEST_P(ThrottleTest, AResetIsNoticedWhileThrottledWithFullReceiveAhead) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.SendFrame("hour");
  EXPECT_EQ(client.ReadFrame(), "hour");
  client.SendUntilFull(Framed(Pattern(32 << 20, 1)));
  client.Reset();
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(ThrottleTest, AHalfClosedThrottledClientGetsAllItsAnswers) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.Send(Framed("a token") + Framed("b") + Framed("tick"));
  client.FinishSending();
  EXPECT_EQ(client.ReadFrame(), "a token");
  EXPECT_FALSE(client.Readable(30));
  tokens_.EndAll();
  EXPECT_EQ(client.ReadFrame(), "b");
  EXPECT_EQ(client.ReadFrame(), "tick");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(ThrottleTest, TenOfTenRequestsWithoutAnswerAreProcessedAfterAClose) {
  auto server = ServeThrottled();
  Client client(server->port());
  std::string stream;
  for (int i = 0; i < 10; ++i) stream += Framed(absl::StrCat("none ", i % 3 == 0 ? "tick" : ""));
  client.Send(stream);
  client.Close();
  EXPECT_TRUE(AwaitTrue([&] { return silent_ == 10; }));
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(silent_, 10);
}

TEST_P(ThrottleTest, AThrottledRequestMayCloseItsConnection) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.Send(Framed("close hour") + Framed("unread"));
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(server->Metric(kFrames), 1);
  EXPECT_EQ(server->Metric(kThrottled), 0);
}

TEST_P(ThrottleTest, AnEndThatComesAfterTheConnectionTouchesNobody) {
  auto server =
      ServeThrottled([](SocketServerOptions& options) { options.num_network_threads = 1; });
  for (int round = 0; round < 3; ++round) {
    Client gone(server->port());
    gone.SendFrame("token");
    EXPECT_EQ(gone.ReadFrame(), "token");
    gone.Reset();
    ASSERT_TRUE(server->AwaitConnections(0));
  }
  ASSERT_EQ(tokens_.size(), 3u);
  // It has the slot of those before it.
  Client client(server->port());
  client.Send(Framed("hour") + Framed("never"));
  EXPECT_EQ(client.ReadFrame(), "hour");
  ASSERT_TRUE(server->AwaitMetric(kThrottled, 1));
  tokens_.EndAll();
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(server->Metric(kThrottled), 1);
}

TEST_P(ThrottleTest, ADrainWaitsForNoThrottling) {
  auto server = ServeThrottled();
  Client client(server->port());
  const std::string stream = Framed("hour") + Framed("b hour") + Framed("c");
  client.Send(stream);
  EXPECT_EQ(client.ReadFrame(), "hour");
  ExpectTaken(*server, static_cast<int64_t>(stream.size()), 1);
  EXPECT_TRUE(server->server().Drain(20'000));
  EXPECT_EQ(client.ReadFrame(), "b hour");
  EXPECT_EQ(client.ReadFrame(), "c");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(server->Metric(kThrottled), 0);
}

TEST_P(ThrottleTest, AStopWithThrottledConnectionsAndTokensLeavesNothing) {
  auto server = ServeThrottled();
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(server->port());
    clients.back().Send(Framed(i % 2 == 0 ? "token" : "hour") + Framed("hold"));
    EXPECT_EQ(clients.back().Read(4).size(), 4u);
  }
  server->server().Stop();
  EXPECT_EQ(server->Metric(kThrottled), 0);
  tokens_.EndAll();
}

// --- idle connections ----------------------------------------------------------------

TEST_P(ThrottleTest, AThrottledConnectionIsNotIdleButOneThatWasIs) {
  auto server = ServeThrottled([](SocketServerOptions& options) {
    options.num_network_threads = 1;
    options.processor.connection.connections_max_idle_ms = 100;
  });
  // On a slow machine a connection may expire before its request is there.
  std::unique_ptr<Client> throttled;
  do {
    throttled = std::make_unique<Client>(server->port());
    throttled->SendFrame("token");
  } while (throttled->ReadFrame() != "token");
  const int64_t expired = server->Metric("network_connections_expired_total");
  Client idle(server->port());
  EXPECT_TRUE(idle.AtEnd());
  Client later(server->port());
  EXPECT_TRUE(later.AtEnd());
  EXPECT_EQ(server->Metric("network_connections_expired_total"), expired + 2);
  EXPECT_EQ(server->Metric(kThrottled), 1);
  tokens_.EndAll();
  EXPECT_TRUE(throttled->AtEnd());
  EXPECT_EQ(server->Metric("network_connections_expired_total"), expired + 3);
}

// --- figures -----------------------------------------------------------------------------

TEST_P(ThrottleTest, TheThrottleTimeIsAmongTheRequestsTimes) {
  auto server = ServeThrottled();
  Client client(server->port());
  client.SendFrame("tick");
  EXPECT_EQ(client.ReadFrame(), "tick");
  client.SendFrame("token");
  EXPECT_EQ(client.ReadFrame(), "token");
  tokens_.EndAll();
  client.Reset();
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_NE(server->Exposition().find("requestmetrics_throttletimems_sum{request=\"unknown\"} 6\n"),
            std::string::npos)
      << server->Exposition();
}

}  // namespace
}  // namespace gyre::testing
