// Network and handler threads that come and go while clients are served: what a
// client sees of it is nothing.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/manual_clock.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/unit/concurrent/no_more_threads.h"

namespace gyre::testing {
namespace {

class NetworkResizeTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string disabled() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Rungs, NetworkResizeTest, ::testing::Values("", "all"),
                         [](const auto& info) { return *info.param == '\0' ? "Full" : "Rung519"; });

// Four of them: two on each of the two processors.
std::vector<Client> FourClients(const TestServer& server) {
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(server.port());
    clients.back().SendFrame("hello");
    EXPECT_EQ(clients.back().ReadFrame(), "hello");
  }
  return clients;
}

constexpr char kMigrated[] = "network_connections_migrated_total";

TEST_P(NetworkResizeTest, ConnectionsOfAThreadThatGoesMoveAndAreServedOn) {
  TestServer server(disabled(), Echo);
  std::vector<Client> clients = FourClients(server);
  ASSERT_TRUE(server.server().ResizeNetworkThreads(1).ok());
  EXPECT_EQ(server.server().network_threads(), 1);
  EXPECT_EQ(server.Metric(kMigrated), 2);
  for (Client& client : clients) {
    client.SendFrame("and on");
    EXPECT_EQ(client.ReadFrame(), "and on");
  }
  EXPECT_EQ(server.server().connection_count(), 4);
}

TEST_P(NetworkResizeTest, AThreadThatComesTakesItsShareOfTheConnections) {
  TestServer server(disabled(), Echo,
                    [](SocketServerOptions& options) { options.num_network_threads = 1; });
  std::vector<Client> clients = FourClients(server);
  ASSERT_TRUE(server.server().ResizeNetworkThreads(2).ok());
  EXPECT_TRUE(server.AwaitMetric(kMigrated, 2));
  for (Client& client : clients) {
    client.SendFrame("and on");
    EXPECT_EQ(client.ReadFrame(), "and on");
  }
  EXPECT_EQ(server.Metric(kMigrated), 2);
}

TEST_P(NetworkResizeTest, AFrameThatWasBegunOnOneThreadIsFinishedOnAnother) {
  TestServer server(disabled(), Echo);
  std::vector<Client> clients = FourClients(server);
  // One byte of the size; size and a little; whole frames and a part; a large frame.
  const std::vector<std::string> payloads = {Pattern(100, 1), Pattern(50'000, 2), Pattern(3'000, 3),
                                             Pattern(700'000, 4)};
  const std::vector<size_t> first_parts = {1, 20'000, 1'500, 400'000};
  for (size_t i = 0; i < clients.size(); ++i) {
    const std::string frame = Framed(payloads[i]);
    clients[i].Send(absl::string_view(frame).substr(0, first_parts[i]));
  }
  // All of it is there before the threads change.
  const int64_t sent = 1 + 20'000 + 1'500 + 400'000 + 4 * (4 + 5);
  ASSERT_TRUE(server.AwaitMetric("network_received_bytes_total", sent));
  for (int count : {1, 2, 4, 2, 1}) {
    ASSERT_TRUE(server.server().ResizeNetworkThreads(count).ok());
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const std::string frame = Framed(payloads[i]);
    clients[i].SendInBackground(frame.substr(first_parts[i]));
    EXPECT_TRUE(clients[i].ReadFrame() == payloads[i]) << i;
  }
  EXPECT_GE(server.Metric(kMigrated), 2);
}

TEST_P(NetworkResizeTest, FramesBehindARequestUnderWayMoveInTheirOrder) {
  Held held;
  std::atomic<bool> hold{false};
  TestServer server(disabled(), [&](RequestPtr request) {
    hold.load() ? held.Add(std::move(request)) : Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  hold = true;
  for (size_t i = 0; i < clients.size(); ++i) {
    std::string frames;
    for (int n = 0; n < 40; ++n) frames += Framed(absl::StrCat(i, ":", n, Pattern(200, 7)));
    clients[i].Send(frames);
  }
  ASSERT_TRUE(held.Await(4));
  absl::Status resized;
  std::thread resizing([&] { resized = server.server().ResizeNetworkThreads(1); });
  // The two that go wait for the answers.
  ASSERT_TRUE(AwaitTrue([&] { return server.server().network_threads() == 1; }));
  EXPECT_EQ(server.Metric(kMigrated), 0);
  hold = false;
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  resizing.join();
  EXPECT_TRUE(resized.ok()) << resized;
  EXPECT_EQ(server.Metric(kMigrated), 2);
  for (size_t i = 0; i < clients.size(); ++i) {
    for (int n = 0; n < 40; ++n) {
      ASSERT_EQ(clients[i].ReadFrame(), absl::StrCat(i, ":", n, Pattern(200, 7)));
    }
  }
}

TEST_P(NetworkResizeTest, PeersThatLeaveMeanwhileHoldNothingUp) {
  Held held;
  std::atomic<bool> hold{false};
  TestServer server(disabled(), [&](RequestPtr request) {
    hold.load() ? held.Add(std::move(request)) : Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  hold = true;
  for (Client& client : clients) client.SendFrame("left alone");
  ASSERT_TRUE(held.Await(4));
  absl::Status resized;
  std::thread resizing([&] { resized = server.server().ResizeNetworkThreads(1); });
  ASSERT_TRUE(AwaitTrue([&] { return server.server().network_threads() == 1; }));
  for (Client& client : clients) client.Reset();
  // Their requests are still with the handlers.
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  resizing.join();
  EXPECT_TRUE(resized.ok()) << resized;
  EXPECT_TRUE(server.AwaitConnections(0));
}

TEST_P(NetworkResizeTest, HalfClosedPeersMoveAndAreAnsweredToTheEnd) {
  TestServer server(disabled(), Echo);
  std::vector<Client> clients = FourClients(server);
  std::thread resizing([&] {
    for (int count : {1, 2, 1}) EXPECT_TRUE(server.server().ResizeNetworkThreads(count).ok());
  });
  for (Client& client : clients) {
    std::string frames;
    for (int n = 0; n < 100; ++n) frames += Framed(absl::StrCat(n));
    client.Send(frames);
    client.FinishSending();
  }
  for (Client& client : clients) {
    for (int n = 0; n < 100; ++n) ASSERT_EQ(client.ReadFrame(), absl::StrCat(n));
    EXPECT_TRUE(client.AtEnd());
  }
  resizing.join();
}

TEST_P(NetworkResizeTest, ABufferLentToAHandlerKeepsItsThreadsMemory) {
  Buffer kept;
  std::atomic<bool> is_kept{false};
  TestServer server(disabled(), [&](RequestPtr request) {
    if (request->frame() == "keep") {
      kept = request->frame_buffer();
      is_kept = true;
    }
    Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  // The last thread's: the first two connections went one to each.
  clients[1].SendFrame("keep");
  EXPECT_EQ(clients[1].ReadFrame(), "keep");
  ASSERT_TRUE(is_kept);
  std::atomic<bool> done{false};
  std::thread resizing([&] {
    EXPECT_TRUE(server.server().ResizeNetworkThreads(1).ok());
    done = true;
  });
  EXPECT_TRUE(server.AwaitMetric(kMigrated, 2));
  clients[1].SendFrame("moved");
  EXPECT_EQ(clients[1].ReadFrame(), "moved");
  EXPECT_EQ(kept.view(), "keep");
  EXPECT_FALSE(done);
  kept.Reset();
  resizing.join();
}

TEST_P(NetworkResizeTest, StopEndsAResizeThatWaits) {
  Held held;
  TestServer server(disabled(), [&](RequestPtr request) {
    request->frame() == "hold" ? held.Add(std::move(request)) : Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  for (Client& client : clients) client.SendFrame("hold");
  ASSERT_TRUE(held.Await(4));
  std::thread resizing([&] { EXPECT_TRUE(server.server().ResizeNetworkThreads(1).ok()); });
  ASSERT_TRUE(AwaitTrue([&] { return server.server().network_threads() == 1; }));
  std::thread answering([&] {
    // Stop waits for the handlers.
    for (Client& client : clients) EXPECT_TRUE(client.AtEnd());
    for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  });
  server.server().Stop();
  resizing.join();
  answering.join();
  EXPECT_EQ(server.server().ResizeNetworkThreads(1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(NetworkResizeTest, DrainAnswersWhatMovesAndThenCloses) {
  Held held;
  TestServer server(disabled(), [&](RequestPtr request) {
    request->frame() == "hold" ? held.Add(std::move(request)) : Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  for (Client& client : clients) client.Send(Framed("hold") + Framed("behind"));
  ASSERT_TRUE(held.Await(4));
  std::thread resizing([&] { EXPECT_TRUE(server.server().ResizeNetworkThreads(1).ok()); });
  ASSERT_TRUE(AwaitTrue([&] { return server.server().network_threads() == 1; }));
  server.server().BeginDrain();
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  for (Client& client : clients) {
    EXPECT_EQ(client.ReadFrame(), "hold");
    EXPECT_EQ(client.ReadFrame(), "behind");
    EXPECT_TRUE(client.AtEnd());
  }
  resizing.join();
  EXPECT_TRUE(server.server().Drain(20'000));
}

TEST_P(NetworkResizeTest, KafkasRuleBoundsEachStep) {
  TestServer server(disabled(), Echo, [](SocketServerOptions& options) {
    options.num_network_threads = 3;
    options.num_io_threads = 5;
  });
  for (int count : {0, -1, 7}) {
    const absl::Status status = server.server().ResizeNetworkThreads(count);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(status.message(), absl::StrCat("listener TEST: num_network_threads=", count,
                                             " is out of range; from 3 it can go to 1 to 6 (half "
                                             "to double at a time)"));
  }
  EXPECT_EQ(server.server().ResizeHandlerThreads(1).message(),
            "num_io_threads=1 is out of range; from 5 it can go to 2 to 10 (half to double at a "
            "time)");
  EXPECT_TRUE(server.server().ResizeNetworkThreads(3).ok());
  EXPECT_TRUE(server.server().ResizeNetworkThreads(1).ok());
  EXPECT_TRUE(server.server().ResizeHandlerThreads(10).ok());
  EXPECT_EQ(server.server().handler_threads(), 10);
}

// Listeners A, B with a number of its own, and the privileged C.
void ThreeListeners(SocketServerOptions& options) {
  options.listeners.clear();
  for (const char* endpoint : {"A://127.0.0.1:0", "B://127.0.0.1:0", "C://127.0.0.1:0"}) {
    options.listeners.emplace_back().endpoint = *ParseEndpoint(endpoint);
  }
  options.listeners[1].num_network_threads = 3;
  options.listeners[2].privileged = true;
}

// Of A, B and C.
std::string ThreadsOf(TestServer& server) {
  return absl::StrCat(server.server().network_threads("A"), server.server().network_threads("B"),
                      server.server().network_threads("C"));
}

TEST_P(NetworkResizeTest, TheServersNumberIsNotForPrivilegedListenersAndThoseWithTheirOwn) {
  TestServer server(disabled(), Echo, &ThreeListeners);
  ASSERT_EQ(ThreadsOf(server), "231");
  ASSERT_TRUE(server.server().ResizeNetworkThreads(4).ok());
  EXPECT_EQ(ThreadsOf(server), "431");
  ASSERT_TRUE(server.server().ResizeNetworkThreads(2).ok());
  EXPECT_EQ(ThreadsOf(server), "231");
  EXPECT_EQ(server.server().network_threads(), 6);
  EXPECT_EQ(server.server().network_threads("D"), 0);
}

TEST_P(NetworkResizeTest, AListenersOwnNumberComesChangesAndGoes) {
  TestServer server(disabled(), Echo, &ThreeListeners);
  SocketServer& network = server.server();
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(network.bound_endpoints()[1].port);
    clients.back().SendFrame("hello");
    EXPECT_EQ(clients.back().ReadFrame(), "hello");
  }
  ASSERT_TRUE(network.SetListenerOverrides("B.num_network_threads=1").ok());
  EXPECT_EQ(ThreadsOf(server), "211");
  EXPECT_EQ(server.Metric(kMigrated), 4);
  ASSERT_TRUE(
      network.SetListenerOverrides("A.num_network_threads=4,listener.name.c.num.network.threads=2")
          .ok());
  EXPECT_EQ(ThreadsOf(server), "422") << "without its own B has the server's";
  ASSERT_TRUE(network.SetListenerOverrides("").ok());
  EXPECT_EQ(ThreadsOf(server), "221");
  for (Client& client : clients) {
    client.SendFrame("and on");
    EXPECT_EQ(client.ReadFrame(), "and on");
  }
}

TEST_P(NetworkResizeTest, ARefusalForOneListenerLeavesAllAsTheyWere) {
  TestServer server(disabled(), Echo, &ThreeListeners);
  SocketServer& network = server.server();
  // Good for A; B, in the same breath, may not go from 3 to 7, nor back to the server's 8.
  const absl::Status status =
      network.SetListenerOverrides("A.num_network_threads=4,B.num_network_threads=7");
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "listener B: num_network_threads=7 is out of range; from 3 it can go to 1 to 6 (half "
            "to double at a time)");
  EXPECT_EQ(ThreadsOf(server), "231");
  ASSERT_TRUE(network.ResizeNetworkThreads(4).ok());
  ASSERT_TRUE(network.ResizeNetworkThreads(8).ok());
  EXPECT_FALSE(network.SetListenerOverrides("A.num_network_threads=4").ok());
  EXPECT_EQ(ThreadsOf(server), "831");
  EXPECT_FALSE(network.ResizeNetworkThreads(17).ok());
  EXPECT_EQ(ThreadsOf(server), "831");
}

TEST_P(NetworkResizeTest, WhereThereAreNoMoreThreadsAllStayAsTheyWere) {
  TestServer server(disabled(), Echo, &ThreeListeners);
  SocketServer& network = server.server();
  const int handlers = network.handler_threads();
  {
    const NoMoreThreads none;
    EXPECT_TRUE(absl::IsResourceExhausted(network.ResizeHandlerThreads(2 * handlers)));
    EXPECT_TRUE(absl::IsResourceExhausted(network.ResizeNetworkThreads(4)));
    EXPECT_TRUE(absl::IsResourceExhausted(
        network.SetListenerOverrides("A.num_network_threads=1,B.num_network_threads=6")));
  }
  EXPECT_EQ(network.handler_threads(), handlers);
  EXPECT_EQ(ThreadsOf(server), "231");
  Client client(server.port());
  client.SendFrame("served");
  EXPECT_EQ(client.ReadFrame(), "served");
}

TEST_P(NetworkResizeTest, AHandlerThatGoesFinishesWhatItStarted) {
  std::atomic<int> blocked{0};
  std::atomic<bool> release{false};
  TestServer server(disabled(), [&](RequestPtr request) {
    if (request->frame() == "block") {
      ++blocked;
      release.wait(false);
    }
    Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  clients[0].SendFrame("block");
  clients[1].SendFrame("block");
  ASSERT_TRUE(AwaitTrue([&] { return blocked == 2; }));
  std::thread resizing([&] { EXPECT_TRUE(server.server().ResizeHandlerThreads(1).ok()); });
  clients[2].SendFrame("waits");
  release = true;
  release.notify_all();
  EXPECT_EQ(clients[0].ReadFrame(), "block");
  EXPECT_EQ(clients[1].ReadFrame(), "block");
  EXPECT_EQ(clients[2].ReadFrame(), "waits");
  resizing.join();
  EXPECT_EQ(server.server().handler_threads(), 1);
}

TEST_P(NetworkResizeTest, ListeningSocketsMoveWithWhoWaitsInTheirBacklogs) {
  TestServer server(disabled(), Echo, [](SocketServerOptions& options) {
    options.accept_mode = AcceptMode::kReusePort;
    options.max_connections = 4;
  });
  std::vector<Client> clients = FourClients(server);
  // Nobody accepts these: they wait in the backlogs of the sockets that move.
  std::vector<Client> waiting;
  for (int i = 0; i < 16; ++i) {
    waiting.emplace_back(server.port());
    waiting.back().SendFrame("waited");
  }
  for (int count : {1, 2, 4, 2, 1}) {
    ASSERT_TRUE(server.server().ResizeNetworkThreads(count).ok());
  }
  for (Client& client : clients) {
    client.SendFrame("and on");
    EXPECT_EQ(client.ReadFrame(), "and on");
    client.Close();
  }
  // Four at a time, whichever.
  std::vector<std::thread> readers;
  for (Client& client : waiting) {
    readers.emplace_back([&client] {
      EXPECT_EQ(client.ReadFrame(), "waited");
      client.Close();
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(server.AwaitConnections(0));
}

TEST_P(NetworkResizeTest, AThrottledConnectionMovesAndStaysThrottled) {
  ManualClock clock(1'000'000'000);
  TestServer server(
      disabled(),
      [](RequestPtr request) {
        if (request->frame() == "throttle") request->Throttle(50'000'000);
        Echo(std::move(request));
      },
      [&clock](SocketServerOptions& options) { options.clock = &clock; });
  std::vector<Client> clients = FourClients(server);
  for (Client& client : clients) {
    client.SendFrame("throttle");
    EXPECT_EQ(client.ReadFrame(), "throttle");
    client.SendFrame("later");
  }
  ASSERT_TRUE(server.server().ResizeNetworkThreads(1).ok());
  EXPECT_EQ(server.Metric(kMigrated), 2);
  EXPECT_EQ(server.Metric("network_frames_received_total"), 8);
  clock.AdvanceMs(100);
  for (Client& client : clients) EXPECT_EQ(client.ReadFrame(), "later");
}

TEST_P(NetworkResizeTest, AConnectionWhoseThrottlingIsHeldElsewhereWaitsForIt) {
  Mutex mutex;
  std::vector<ThrottleToken> tokens;
  TestServer server(disabled(), [&](RequestPtr request) {
    if (request->frame() == "throttle") {
      MutexLock lock(mutex);
      tokens.push_back(request->StartThrottling(1'000'000));
    }
    Echo(std::move(request));
  });
  std::vector<Client> clients = FourClients(server);
  for (Client& client : clients) {
    client.SendFrame("throttle");
    EXPECT_EQ(client.ReadFrame(), "throttle");
    client.SendFrame("later");
  }
  std::thread resizing([&] { EXPECT_TRUE(server.server().ResizeNetworkThreads(1).ok()); });
  ASSERT_TRUE(AwaitTrue([&] { return server.server().network_threads() == 1; }));
  EXPECT_EQ(server.Metric(kMigrated), 0);
  {
    MutexLock lock(mutex);
    tokens.clear();
  }
  for (Client& client : clients) EXPECT_EQ(client.ReadFrame(), "later");
  resizing.join();
  EXPECT_EQ(server.Metric(kMigrated), 2);
}

}  // namespace
}  // namespace gyre::testing
