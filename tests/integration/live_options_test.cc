// Options that change while a server runs, on connections that are there.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/frame_decoder.h"
#include "engine/network/memory_plan.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre {
namespace {

using testing::AwaitTrue;
using testing::Client;
using testing::Framed;
using testing::Held;
using testing::Pattern;
using testing::TestServer;

constexpr char kReceived[] = "network_received_bytes_total";

void Change(TestServer& server, const std::function<void(ConnectionOptions&)>& change) {
  ConnectionOptions options = server.server().connection_options();
  change(options);
  ASSERT_TRUE(server.server().SetConnectionOptions(options).ok());
}

TEST(LiveOptions, AShorterIdleTimeClosesConnectionsThatAreThere) {
  TestServer server("", testing::Echo, [](SocketServerOptions& options) {
    options.processor.connection.connections_max_idle_ms = -1;
  });
  Client client(server.port());
  client.SendFrame("a");
  EXPECT_EQ(client.ReadFrame(), "a");
  ConnectionOptions options = server.server().connection_options();
  options.connections_max_idle_ms = 50;
  ASSERT_TRUE(server.server().SetConnectionOptions(options).ok());
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server.AwaitMetric("network_connections_expired_total", 1));
}

TEST(LiveOptions, ALowerRequestLimitHoldsFromTheNextFrame) {
  TestServer server("", testing::Echo);
  Client client(server.port());
  const std::string payload(1000, 'x');
  client.SendFrame(payload);
  EXPECT_EQ(client.ReadFrame(), payload);
  ConnectionOptions options = server.server().connection_options();
  options.socket_request_max_bytes = 999;
  ASSERT_TRUE(server.server().SetConnectionOptions(options).ok());
  client.SendFrame(payload);
  EXPECT_TRUE(client.AtEnd());
}

// Takes whatever size it is told.
class Trusting final : public FrameDecoder {
 public:
  Verdict Inspect(absl::string_view bytes, size_t) const override {
    if (bytes.size() < 4) return Verdict::NeedMore();
    return Verdict::Frame(4, LoadBigEndian<int32_t>(bytes.data()));
  }
  uint32_t max_undecided_bytes() const override { return 4; }
};

TEST(LiveOptions, TheRequestLimitHoldsWhoeverDecodesTheFrames) {
  const Trusting trusting;
  TestServer server("", testing::Echo, [&](SocketServerOptions& options) {
    options.listeners[0].frame_decoder = &trusting;
    options.processor.connection.socket_request_max_bytes = 100'000;
  });
  const std::string largest(100'000, 'x');
  Client client(server.port());
  client.SendFrame(largest);
  EXPECT_EQ(client.ReadFrame(), largest);
  client.Send(std::string("\0\1\x86\xa1", 4));  // 100'001
  EXPECT_TRUE(client.AtEnd());
  Change(server, [](ConnectionOptions& options) { options.socket_request_max_bytes = 100'001; });
  Client other(server.port());
  other.SendFrame(largest + "x");
  EXPECT_EQ(other.ReadFrame(), largest + "x");
}

TEST(LiveOptions, WhatCannotChangeIsRefusedAndNothingChanges) {
  TestServer server("", testing::Echo, [](SocketServerOptions& options) {
    options.queued_max_request_bytes = 2'000'000;
    options.processor.connection.socket_request_max_bytes = 1'000'000;
  });
  const ConnectionOptions before = server.server().connection_options();
  ConnectionOptions options = before;
  options.dispatch = Dispatch::kInline;
  EXPECT_FALSE(server.server().SetConnectionOptions(options).ok());
  options = before;
  options.max_in_flight_requests_per_connection = 0;
  EXPECT_FALSE(server.server().SetConnectionOptions(options).ok());
  options = before;
  options.socket_request_max_bytes = 3'000'000;
  const absl::Status status = server.server().SetConnectionOptions(options);
  EXPECT_TRUE(absl::StrContains(status.message(), "2000000")) << status;
  EXPECT_EQ(server.server().connection_options().socket_request_max_bytes, 1'000'000);
}

TEST(LiveOptions, HowMuchIsReceivedAheadChangesWhileRequestsWait) {
  Held held;
  TestServer server(
      "", [&](RequestPtr request) { held.Add(std::move(request)); },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.processor.connection.receive_ahead_bytes = 0;
      });
  constexpr int kRequests = 1500;
  const std::string payload = Pattern(2000, 1);
  std::string stream;
  for (int i = 0; i < kRequests; ++i) stream += Framed(payload);
  Client client(server.port());
  client.SendInBackground(std::move(stream));
  ASSERT_TRUE(held.Await(1));
  // What is received at once is one receive buffer, or two.
  const auto received = [&] { return server.Metric(kReceived); };
  EXPECT_LE(received(), 40'000);
  Change(server, [](ConnectionOptions& options) { options.receive_ahead_bytes = 1'000'000; });
  EXPECT_TRUE(server.AwaitMetric(kReceived, 1'000'000));
  // Back again: nothing more comes until all of that is served.
  Change(server, [](ConnectionOptions& options) { options.receive_ahead_bytes = 0; });
  ASSERT_EQ(server.server().ListConnections(10, 20'000).size(), 1u);
  int64_t served = 0;
  const auto serve_one = [&] {
    for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
    if (client.ReadFrame() != payload) return false;
    ++served;
    return served == kRequests || held.Await(1);
  };
  ASSERT_TRUE(serve_one());
  const int64_t ahead = received();
  while (served < ahead / 2004 - 20) ASSERT_TRUE(serve_one()) << served;
  EXPECT_EQ(received(), ahead);
  while (served < kRequests) ASSERT_TRUE(serve_one()) << served;
}

TEST(LiveOptions, ALowerLimitHoldsForAReceiveThatIsArmedAlready) {
  Held held;
  TestServer server(
      "", [&](RequestPtr request) { held.Add(std::move(request)); },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.processor.connection.receive_ahead_bytes = 1'000'000;
      });
  const std::string payload = Pattern(2000, 1);
  std::string stream;
  for (int i = 0; i < 500; ++i) stream += Framed(payload);
  Client client(server.port());
  client.SendFrame(payload);
  ASSERT_TRUE(held.Await(1));
  for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
  ASSERT_EQ(client.ReadFrame(), payload);
  Change(server, [](ConnectionOptions& options) { options.receive_ahead_bytes = 0; });
  ASSERT_EQ(server.server().ListConnections(10, 20'000).size(), 1u);
  client.SendInBackground(std::move(stream));
  ASSERT_TRUE(held.Await(1));
  // Long enough for a loopback to bring all of it.
  EXPECT_FALSE(client.Readable(100));
  EXPECT_LE(server.Metric(kReceived), 40'000);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(held.Await(1));
    for (RequestPtr& request : held.TakeAll()) testing::Echo(std::move(request));
    ASSERT_EQ(client.ReadFrame(), payload);
  }
}

// Clients with many requests under way, in rounds of new connections, while `change` is
// called with 0, 1, 2, …
void ChangeUnderLoad(const std::function<void(ConnectionOptions&, int)>& change) {
  TestServer server("", testing::Echo, [](SocketServerOptions& options) {
    options.processor.connection.max_in_flight_requests_per_connection = 8;
    options.processor.connection.zero_copy_min_bytes = 1;
  });
  std::atomic<int> finished{0};
  std::vector<std::thread> clients;
  constexpr int kClients = 3;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&server, &finished, i] {
      for (int round = 0; round < 8; ++round) {
        Client client(server.port());
        std::string stream;
        const auto payload = [&](int n) { return Pattern(static_cast<size_t>(100 + n * 97), i); };
        constexpr int kRequests = 100;
        for (int n = 0; n < kRequests; ++n) stream += Framed(payload(n));
        client.SendInBackground(std::move(stream));
        for (int n = 0; n < kRequests; ++n) {
          ASSERT_TRUE(client.ReadFrame() == payload(n)) << "answer " << n << " of round " << round;
        }
      }
      ++finished;
    });
  }
  for (int n = 0; finished < kClients; ++n) {
    Change(server, [&](ConnectionOptions& options) { change(options, n); });
    std::this_thread::yield();
    if (::testing::Test::HasFatalFailure()) break;
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(AwaitTrue([&] { return server.Metric("network_zero_copy_pinned_bytes") == 0; }));
}

TEST(LiveOptions, ReceiveAheadChangesUnderLoad) {
  ChangeUnderLoad([](ConnectionOptions& options, int n) {
    constexpr int64_t kValues[] = {0, 1 << 20, 100, 64 * 1024};
    options.receive_ahead_bytes = kValues[n % 4];
  });
}

TEST(LiveOptions, WhatZeroCopyMayPinChangesUnderLoad) {
  ChangeUnderLoad([](ConnectionOptions& options, int n) {
    constexpr int64_t kValues[] = {0, 16 << 20, 50'000};
    options.zero_copy_max_pinned_bytes = kValues[n % 3];
  });
}

TEST(LiveOptions, WhatZeroCopyMayPinComesFromTheAnswersPart) {
  SocketServerOptions planned;
  TestServer server("", testing::Echo, [&planned](SocketServerOptions& options) {
    options.memory_limit_bytes = 512 << 20;
    planned = options;
  });
  const MemoryPlan plan = *PlanMemory(planned);
  const int64_t processors = ProcessorCount(planned);
  for (const int64_t pinned : {int64_t{0}, int64_t{1} << 20, int64_t{1} << 30, int64_t{1} << 20}) {
    Change(server, [&](ConnectionOptions& options) {
      options.zero_copy_max_pinned_bytes = pinned;
      options.connections_max_idle_ms += 1;  // another flag goes with it
    });
    const ConnectionOptions& now = server.server().connection_options();
    EXPECT_LE(now.zero_copy_max_pinned_bytes, pinned);
    EXPECT_LE(now.zero_copy_max_pinned_bytes * processors,
              (plan.response_bytes + plan.pinned_bytes * processors) / 4);
    EXPECT_EQ(now.response_budget_bytes + now.zero_copy_max_pinned_bytes * processors,
              plan.response_bytes + plan.pinned_bytes * processors);
    if (pinned <= 1 << 20) EXPECT_EQ(now.zero_copy_max_pinned_bytes, pinned);
  }
}

}  // namespace
}  // namespace gyre
