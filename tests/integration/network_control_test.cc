// What a server tells of itself, which the admin pages rest on: lists of connections,
// metrics, the slow-request log, health.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/manual_clock.h"
#include "engine/concurrent/mutex.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre {
namespace {

using testing::AwaitTrue;
using testing::Client;
using testing::Held;
using testing::TestServer;

TEST(ConnectionLists, SayWhoIsThereAndWhatTheyDo) {
  Held held;
  TestServer server("", [&](RequestPtr request) {
    request->client_id.Set("reader-7");
    request->SetClientSoftware({"softly", "1.2"});
    if (request->frame() == "hold") return held.Add(std::move(request));
    testing::Echo(std::move(request));
  });
  Client idle(server.port());
  idle.SendFrame("abc");
  EXPECT_EQ(idle.ReadFrame(), "abc");
  Client waits(server.port());
  waits.SendFrame("hold");
  ASSERT_TRUE(held.Await(1));
  Client half(server.port());
  half.Send("\0\0");
  ASSERT_TRUE(server.AwaitConnections(3));

  const auto find = [&](const Client& client) {
    const std::string peer = absl::StrCat("127.0.0.1:", client.local_port());
    for (const ConnectionInfo& info : server.server().ListConnections(100, 20'000)) {
      if (info.peer == peer) return info;
    }
    return ConnectionInfo();
  };
  ASSERT_TRUE(AwaitTrue([&] { return find(idle).state == std::string("idle"); }));
  const ConnectionInfo info = find(idle);
  EXPECT_EQ(info.client_id, "reader-7");
  EXPECT_EQ(info.client_software_name, "softly");
  EXPECT_EQ(info.client_software_version, "1.2");
  EXPECT_EQ(info.requests, 1);
  EXPECT_EQ(info.received_bytes, 7);
  EXPECT_EQ(info.sent_bytes, 7);
  EXPECT_EQ(find(waits).state, std::string("in flight"));
  EXPECT_EQ(find(waits).in_flight, 1);
  EXPECT_EQ(server.server().ListConnections(2, 20'000).size(), 2u);
  for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
  EXPECT_EQ(waits.ReadFrame(), "hold");
  server.server().Stop();
  EXPECT_TRUE(server.server().ListConnections(100, 20'000).empty());
}

TEST(ConnectionLists, NameWhatEachConnectionWaitsFor) {
  constexpr size_t kLarge = 1 << 20;
  Held held;
  Mutex mutex;
  CondVar changed;
  bool inside = false;
  bool go_on = false;
  TestServer server(
      "",
      [&](RequestPtr request) {
        const absl::string_view frame = request->frame();
        if (absl::StartsWith(frame, "hold")) return held.Add(std::move(request));
        if (frame == "throttle") request->Throttle(3'600'000'000'000);
        if (frame == "large")
          return testing::ReplyFramed(std::move(request), testing::Pattern(4 << 20, 1));
        if (frame == "block") {
          MutexLock lock(mutex);
          inside = true;
          while (!go_on) changed.Wait(mutex);
        }
        testing::Echo(std::move(request));
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.num_io_threads = 1;
        options.queued_max_requests = 1;
        options.sockets.send_buffer_bytes = 64 * 1024;
        options.processor.connection.socket_request_max_bytes = kLarge;
        options.queued_max_request_bytes = kLarge + 200'000;
      });
  const auto state = [&](const Client& client) -> std::string {
    const std::string peer = absl::StrCat("127.0.0.1:", client.local_port());
    for (const ConnectionInfo& info : server.server().ListConnections(100, 20'000)) {
      if (info.peer == peer) return info.state;
    }
    return "not there";
  };
  const auto becomes = [&](const Client& client, absl::string_view wanted) {
    return AwaitTrue([&] { return state(client) == wanted; });
  };
  Client throttled(server.port());
  throttled.SendFrame("throttle");
  EXPECT_EQ(throttled.ReadFrame(), "throttle");
  EXPECT_TRUE(becomes(throttled, "throttled"));
  Client slow(server.port(), testing::kSmallWindowBytes);
  slow.SendFrame("large");
  EXPECT_TRUE(becomes(slow, "sending"));
  Client half_closed(server.port());
  half_closed.SendFrame("hold");
  half_closed.FinishSending();
  EXPECT_TRUE(becomes(half_closed, "half-closed"));
  Client half_sent(server.port());
  half_sent.Send(absl::string_view("\0\0", 2));
  EXPECT_TRUE(becomes(half_sent, "receiving"));
  Client large(server.port());
  large.SendInBackground(testing::Framed("hold" + testing::Pattern(kLarge - 4, 1)));
  ASSERT_TRUE(held.Await(2));
  EXPECT_TRUE(becomes(large, "in flight"));
  Client without_memory(server.port());
  without_memory.SendInBackground(testing::Framed(testing::Pattern(kLarge, 2)).substr(0, 600'000));
  EXPECT_TRUE(becomes(without_memory, "waiting for memory"));
  Client blocks(server.port());
  blocks.SendFrame("block");
  ASSERT_TRUE(AwaitTrue([&] {
    MutexLock lock(mutex);
    return inside;
  }));
  std::vector<std::unique_ptr<Client>> queued;
  for (int i = 0; i < 4; ++i) {
    queued.push_back(std::make_unique<Client>(server.port()));
    queued.back()->SendFrame("a");
    if (i == 0) EXPECT_TRUE(becomes(*queued[0], "in flight"));
  }
  EXPECT_TRUE(becomes(*queued.back(), "waiting for a handler"));
  {
    MutexLock lock(mutex);
    go_on = true;
    changed.NotifyAll();
  }
  for (auto& client : queued) EXPECT_EQ(client->ReadFrame(), "a");
  EXPECT_TRUE(becomes(*queued.back(), "idle"));
  for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
}

TEST(ConnectionLists, HoldManyWhileTrafficGoesOn) {
  TestServer server("", testing::Echo, [](SocketServerOptions& options) {
    options.sockets.listen_backlog_size = 1024;
  });
  std::vector<Client> clients;
  for (int i = 0; i < 300; ++i) clients.emplace_back(server.port());
  ASSERT_TRUE(server.AwaitConnections(300));
  // Some may still be on their way to their processor.
  ASSERT_TRUE(AwaitTrue([&] { return server.Metric("network_connections") == 300; }));
  std::thread lister([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(server.server().ListConnections(1000, 20'000).size(), 300u);
    }
  });
  for (int i = 0; i < 200; ++i) {
    clients[static_cast<size_t>(i)].SendFrame("x");
    EXPECT_EQ(clients[static_cast<size_t>(i)].ReadFrame(), "x");
  }
  lister.join();
}

// --- metrics and the slow-request log ----------------------------------------------------

TEST(NetworkMetrics, TellThreadsQueuesAndTimesUnderKafkasNames) {
  TestServer server(
      "",
      [](RequestPtr request) {
        request->api = 0;
        request->api_version = 3;
        testing::Echo(std::move(request));
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.api_max_versions = {5};
        options.queued_max_request_bytes = 200'000'000;
      });
  Client client(server.port());
  client.SendFrame("abc");
  EXPECT_EQ(client.ReadFrame(), "abc");
  const std::string listener = "listener=\"TEST\",networkprocessor=\"0\"";
  const auto value = [&](const char* name, const std::string& labels) {
    return server.metrics().Value(name, labels);
  };
  EXPECT_TRUE(AwaitTrue([&] {
    return value("kafka_network_requestmetrics_requests_total", "request=\"Echo\",version=\"3\"") ==
           1;
  }));
  EXPECT_EQ(value("kafka_server_socket_server_metrics_connection_count", listener), 1);
  EXPECT_EQ(value("kafka_server_socket_server_metrics_connection_creation_total", listener), 1);
  EXPECT_EQ(value("kafka_server_socket_server_metrics_request_total", listener), 1);
  EXPECT_EQ(value("kafka_network_requestchannel_responsequeuesize", ""), 0);
  EXPECT_EQ(value("kafka_network_requestchannel_responsequeuesize", "processor=\"0\""), 0);
  EXPECT_EQ(
      value("kafka_server_socket_server_metrics_connection_accept_total", "listener=\"TEST\""), 1);
  EXPECT_EQ(
      value("kafka_server_socket_server_metrics_ip_connection_accept_total", "ip=\"127.0.0.1\""),
      1);
  EXPECT_EQ(value("kafka_network_requestchannel_requestqueuesize", ""), 0);
  EXPECT_TRUE(AwaitTrue(
      [&] { return value("kafka_network_socketserver_memorypoolavailable", "") == 200'000'000; }));
  EXPECT_GT(value("gyre_uring_enters_total", "thread=\"processor-0\"").value_or(0), 0);
  EXPECT_GT(value("gyre_uring_accept_arms_total", "thread=\"acceptor-TEST\"").value_or(0), 0);
  const std::string text = server.metrics().Exposition();
  for (const char* name :
       {"kafka_network_processor_idle_percent{networkprocessor=\"0\"}",
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_network_acceptor_acceptorblocked_percent{listener=\"TEST\"} 0\n",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "gyre_slab_slots{slot_bytes=\"4096\"} ", "gyre_slab_slots_lent{slot_bytes=\"262144\"} 0\n",
        "gyre_slab_exhausted_total 0\n", "gyre_large_ranges_lent_bytes 0\n",
        "network_file_short_sends_total 0\n",
        "kafka_network_requestmetrics_requestqueuetimems{request=\"Echo\"",
        "kafka_network_requestmetrics_localtimems{request=\"Echo\"",
        "kafka_network_requestmetrics_remotetimems{request=\"Echo\"",
        "kafka_network_requestmetrics_throttletimems{request=\"Echo\"",
        "kafka_network_requestmetrics_responsequeuetimems{request=\"Echo\"",
        "kafka_network_requestmetrics_responsesendtimems{request=\"Echo\"",
        "kafka_network_requestmetrics_totaltimems{request=\"Echo\"",
        "gyre_request_duration_seconds_bucket{request=\"Echo\",phase=\"total\",le=\"+Inf\"} 1\n"}) {
    EXPECT_TRUE(absl::StrContains(text, name)) << name << "\n" << text;
  }
  server.server().Stop();
  // What is gone is not told of; what was counted is.
  EXPECT_FALSE(absl::StrContains(server.metrics().Exposition(), "networkprocessor"));
  EXPECT_TRUE(absl::StrContains(server.metrics().Exposition(), "totaltimems_count"));
}

TEST(NetworkMetrics, AnIdleServerIsIdle) {
  TestServer server("", testing::Echo);
  // Of the time so far, whatever that is, next to nothing was work.
  EXPECT_TRUE(AwaitTrue([&] {
    const std::string text = server.metrics().Exposition();
    const auto share = [&](absl::string_view name) {
      double value = 0;
      const size_t at = text.find(absl::StrCat("\n", name, " ")) + name.size() + 2;
      return absl::SimpleAtod(text.substr(at, text.find('\n', at) - at), &value) ? value : -1;
    };
    return share("kafka_network_socketserver_networkprocessoravgidle_percent") > 0.8 &&
           share("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") > 0.8;
  }));
}

class SlowLogTest : public ::testing::Test, protected google::LogSink {
 protected:
  SlowLogTest() { google::AddLogSink(this); }
  ~SlowLogTest() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t size) override {
    MutexLock lock(mutex_);
    const std::string line(message, size);
    if (absl::StartsWith(line, "slow request: ")) lines_.push_back(line);
  }
  std::vector<std::string> lines() {
    MutexLock lock(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(SlowLogTest, TellsWhichWhoseAndWhereTheTimeWentFromTheMomentItIsSet) {
  TestServer server("", [](RequestPtr request) {
    request->api = 0;
    request->api_version = 3;
    request->client_id.Set("a\nb");
    request->SetClientSoftware({"softly", "1.2"});
    testing::Echo(std::move(request));
  });
  Client client(server.port());
  const auto ask = [&] {
    client.SendFrame("abc");
    EXPECT_EQ(client.ReadFrame(), "abc");
  };
  ask();
  ConnectionOptions options = server.server().connection_options();
  options.slow_request_log_ms = 0;
  ASSERT_TRUE(server.server().SetConnectionOptions(options).ok());
  ASSERT_TRUE(AwaitTrue([&] {
    ask();
    return !lines().empty();
  }));
  for (const absl::string_view part :
       {"Echo version 3 took ", " ms: request queue ", ", local ", ", remote ", ", throttle ",
        ", response queue ", ", response send ", "; 3 bytes from 127.0.0.1:", " on TEST, ",
        "client id \"a\\nb\"", "software softly 1.2, User:ANONYMOUS"}) {
    EXPECT_TRUE(absl::StrContains(lines()[0], part)) << part << "\n" << lines()[0];
  }
  for (int i = 0; i < 100; ++i) ask();
  EXPECT_LT(lines().size(), 50u);
}

// --- threads that are stuck ------------------------------------------------------------------

TEST(NetworkHealth, NamesTheProcessorThatDoesNotGetOn) {
  ManualClock clock;
  Mutex mutex;
  CondVar changed;
  bool inside = false;
  bool go_on = false;
  TestServer server(
      "",
      [&](RequestPtr request) {
        if (request->frame() == "stuck") {
          MutexLock lock(mutex);
          inside = true;
          while (!go_on) changed.Wait(mutex);
        }
        testing::Echo(std::move(request));
      },
      [&](SocketServerOptions& options) {
        options.clock = &clock;
        options.num_network_threads = 1;
        options.processor.connection.dispatch = Dispatch::kInline;
        options.processor.connection.connections_max_idle_ms = -1;
      });
  const auto health = [&] { return server.server().Health(); };
  Client client(server.port());
  client.SendFrame("a");
  ASSERT_EQ(client.ReadFrame(), "a");
  ASSERT_TRUE(AwaitTrue([&] {
    // Waiting for something to do is no turn, however long it lasts.
    clock.AdvanceMs(SocketServer::kStuckTurnMs + 1);
    return health().ok();
  }));
  client.SendFrame("stuck");
  ASSERT_TRUE(AwaitTrue([&] {
    MutexLock lock(mutex);
    return inside;
  }));
  EXPECT_TRUE(health().ok());
  clock.AdvanceMs(SocketServer::kStuckTurnMs + 1);
  EXPECT_EQ(health().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(health().message(),
                                "processor-0 (listener TEST) has been busy with one turn for 10 s"))
      << health();
  {
    MutexLock lock(mutex);
    go_on = true;
    changed.NotifyAll();
  }
  EXPECT_EQ(client.ReadFrame(), "stuck");
  EXPECT_TRUE(AwaitTrue([&] { return health().ok(); }));
}

// A server by a clock that a test moves, whose handlers stay in each request that begins
// with "stuck" until they are let go.
class HandlerHealthTest : public ::testing::Test {
 protected:
  HandlerHealthTest() {
    server_.handler().lane_of = [](const Request& request) {
      return request.frame() == "stuck in b" ? 1 : 0;
    };
    server_.handler().api_of = [](const Request& request) {
      return static_cast<int16_t>(request.frame() == "stuck in b" ? 1 : 7);
    };
  }
  ~HandlerHealthTest() override { LetGo(); }

  absl::Status health() { return server_.server().Health(); }
  // Soon: a processor in whose turn the clock went on is named before any handler.
  bool SoonSays(absl::string_view part) {
    return AwaitTrue([&] { return absl::StrContains(health().message(), part); });
  }
  void AwaitStuck(int count) {
    MutexLock lock(mutex_);
    while (stuck_ < count) changed_.Wait(mutex_);
  }
  void LetGo() {
    MutexLock lock(mutex_);
    go_on_ = true;
    changed_.NotifyAll();
  }
  void Serve(RequestPtr request) {
    if (absl::StartsWith(request->frame(), "stuck")) Stay();
    testing::Echo(std::move(request));
  }
  void Stay() {
    MutexLock lock(mutex_);
    ++stuck_;
    changed_.NotifyAll();
    while (!go_on_) changed_.Wait(mutex_);
  }

  ManualClock clock_;
  Mutex mutex_;
  CondVar changed_;
  int stuck_ = 0;
  bool go_on_ = false;
  TestServer server_{"", [this](RequestPtr request) { Serve(std::move(request)); },
                     [this](SocketServerOptions& options) {
                       options.clock = &clock_;
                       options.num_io_threads = 2;
                       options.lanes = {{"a", 1}, {"b", 1}};
                       options.api_names = {"Produce", "Fetch"};
                       options.processor.connection.connections_max_idle_ms = -1;
                     }};
};

constexpr char kLongestRequest[] = "gyre_handler_longest_request_seconds";

TEST_F(HandlerHealthTest, NamesTheHandlerThatStaysInARequest) {
  Client other(server_.port());
  Client client(server_.port());
  client.SendFrame("stuck in b");
  AwaitStuck(1);
  EXPECT_TRUE(health().ok()) << health();
  clock_.AdvanceMs(SocketServer::kStuckTurnMs);
  // The other handler serves all the while and waits in between.
  other.SendFrame("a");
  EXPECT_EQ(other.ReadFrame(), "a");
  EXPECT_EQ(health().code(), absl::StatusCode::kUnavailable);
  for (const absl::string_view part :
       {"handler-", " has been busy with one request (Fetch, api key 1, lane b) for 10 s"}) {
    EXPECT_TRUE(SoonSays(part)) << health();
  }
  EXPECT_EQ(server_.Metric(kLongestRequest), 10);
  LetGo();
  EXPECT_EQ(client.ReadFrame(), "stuck in b");
  EXPECT_TRUE(AwaitTrue([&] { return health().ok(); }));
  EXPECT_TRUE(server_.AwaitMetric(kLongestRequest, 0));
}

TEST_F(HandlerHealthTest, WaitingForWorkIsNotBeingStuck) {
  Client client(server_.port());
  client.SendFrame("a");
  EXPECT_EQ(client.ReadFrame(), "a");
  EXPECT_TRUE(AwaitTrue([&] {
    clock_.AdvanceMs(SocketServer::kStuckTurnMs);
    return health().ok();
  }));
  EXPECT_EQ(server_.Metric(kLongestRequest), 0);
}

TEST_F(HandlerHealthTest, OneThatShallGoIsNamedWhileItsGoingIsWaitedFor) {
  Client first(server_.port());
  Client second(server_.port());
  first.SendFrame("stuck");
  second.SendFrame("stuck");
  AwaitStuck(2);
  std::thread resizing([&] { EXPECT_TRUE(server_.server().ResizeHandlerThreads(1).ok()); });
  EXPECT_TRUE(AwaitTrue([&] { return server_.server().handler_threads() == 1; }));
  clock_.AdvanceMs(SocketServer::kStuckTurnMs);
  EXPECT_TRUE(SoonSays("one request (api key 7, lane a) for 10 s")) << health();
  // A drain does not wait for it.
  server_.server().BeginDrain();
  resizing.join();
  EXPECT_FALSE(health().ok());
  LetGo();
  EXPECT_EQ(first.ReadFrame(), "stuck");
  EXPECT_EQ(second.ReadFrame(), "stuck");
}

TEST_F(HandlerHealthTest, NamesWorkBesideRequests) {
  struct Work : Continuation {
    std::function<void()> stay;
  } work;
  work.stay = [this] { Stay(); };
  work.run = [](Continuation* self) { static_cast<Work*>(self)->stay(); };
  server_.server().continuations().Post(&work);
  AwaitStuck(1);
  clock_.AdvanceMs(SocketServer::kStuckTurnMs);
  EXPECT_TRUE(SoonSays("busy with work beside requests for 10 s")) << health();
  LetGo();
  EXPECT_TRUE(AwaitTrue([&] { return health().ok(); }));
}

TEST(FrameTimeout, SparesAFrameThatWaitsForMemory) {
  ManualClock clock;
  Held held;
  TestServer server(
      "", [&](RequestPtr request) { held.Add(std::move(request)); },
      [&](SocketServerOptions& options) {
        options.clock = &clock;
        options.num_network_threads = 1;
        options.processor.connection.connections_max_idle_ms = -1;
        options.processor.connection.frame_timeout_ms = 60'000;
        options.processor.connection.socket_request_max_bytes = 1 << 20;
        options.queued_max_request_bytes = (1 << 20) + 100'000;
      });
  const std::string payload = testing::Pattern(1 << 20, 1);
  Client first(server.port());
  first.SendInBackground(testing::Framed(payload));
  ASSERT_TRUE(held.Await(1));
  Client waits(server.port());
  waits.SendInBackground(testing::Framed(payload));
  ASSERT_TRUE(server.AwaitMetric("network_memory_waits_total", 1));
  clock.AdvanceMs(200'000);
  // A turn in which it would be noticed, which is over when the next one took another.
  Client other(server.port());
  ASSERT_TRUE(server.AwaitMetric("network_connections_accepted_total", 3));
  Client another(server.port());
  ASSERT_TRUE(server.AwaitMetric("network_connections_accepted_total", 4));
  for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
  EXPECT_TRUE(first.ReadFrame() == payload);
  ASSERT_TRUE(held.Await(1));
  for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
  EXPECT_TRUE(waits.ReadFrame() == payload);
}

TEST(FrameTimeout, ClosesAConnectionWhoseFrameNeverEnds) {
  TestServer server("", testing::Echo, [](SocketServerOptions& options) {
    options.processor.connection.frame_timeout_ms = 100;
  });
  Client client(server.port());
  client.SendFrame("a");
  EXPECT_EQ(client.ReadFrame(), "a");
  client.Send(std::string("\0\0\0\5ab", 6));
  EXPECT_TRUE(client.AtEnd());
}

}  // namespace
}  // namespace gyre
