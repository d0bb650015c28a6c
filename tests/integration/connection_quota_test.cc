// Connection quotas over real sockets: an acceptor's intake and those of processors
// (reuseport), with every feature of the kernel and with the optional ones hidden.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/open_descriptors.h"

namespace gyre::testing {
namespace {

struct Mode {
  const char* disabled;
  AcceptMode accept_mode;
};

class ConnectionQuotaTest : public ::testing::TestWithParam<Mode> {
 protected:
  std::unique_ptr<TestServer> Serve(std::function<void(SocketServerOptions&)> change,
                                    std::function<void(RequestPtr)> start = Echo) {
    return std::make_unique<TestServer>(GetParam().disabled, std::move(start),
                                        [&](SocketServerOptions& options) {
                                          options.accept_mode = GetParam().accept_mode;
                                          // A burst of one second's worth.
                                          options.quota_window_num = 2;
                                          change(options);
                                        });
  }
  bool reuse_port() const { return GetParam().accept_mode == AcceptMode::kReusePort; }
};

// Kafka's counts of a quota, of the one listener.
int64_t OfListener(const TestServer& server, absl::string_view name) {
  return server.Metric(absl::StrCat("kafka_server_socket_server_metrics_", name, "_total"),
                       "listener=\"TEST\"");
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ConnectionQuotaTest,
    ::testing::Values(Mode{"", AcceptMode::kAcceptor}, Mode{"", AcceptMode::kReusePort},
                      Mode{"all", AcceptMode::kAcceptor}, Mode{"all", AcceptMode::kReusePort}),
    [](const ::testing::TestParamInfo<Mode>& info) {
      return absl::StrCat(
          info.param.disabled[0] == '\0' ? "Full" : "Rung519",
          info.param.accept_mode == AcceptMode::kAcceptor ? "Acceptor" : "ReusePort");
    });

ListenerOptions Named(const char* endpoint) {
  ListenerOptions listener;
  listener.endpoint = *ParseEndpoint(endpoint);
  return listener;
}

// One request and its answer: the connection is served.
::testing::AssertionResult Served(Client& client, absl::string_view text) {
  client.SendFrame(text);
  const std::string answer = client.ReadFrame();
  if (answer == text) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "answered \"" << answer << "\"";
}

// --- one address ------------------------------------------------------------------------

TEST_P(ConnectionQuotaTest, OverItsMaximumAnAddressIsClosedAtOnce) {
  auto server = Serve([](SocketServerOptions& options) { options.max_connections_per_ip = 2; });
  Client a(server->port()), b(server->port());
  EXPECT_TRUE(Served(a, "a"));
  EXPECT_TRUE(Served(b, "b"));
  for (int i = 0; i < 5; ++i) {
    Client refused(server->port());
    EXPECT_TRUE(refused.AtEnd());
  }
  EXPECT_EQ(server->Metric("network_connections_refused_per_ip_total"), 5);
  EXPECT_EQ(server->server().connection_count(), 2);
  a.Close();
  ASSERT_TRUE(server->AwaitConnections(1));
  Client c(server->port());
  EXPECT_TRUE(Served(c, "c"));
}

TEST_P(ConnectionQuotaTest, AnOverrideGivesOneAddressItsOwnMaximum) {
  auto server = Serve([](SocketServerOptions& options) {
    options.max_connections_per_ip = 0;
    options.max_connections_per_ip_overrides = "127.0.0.1:1,10.9.8.7:5";
  });
  Client a(server->port());
  EXPECT_TRUE(Served(a, "a"));
  Client b(server->port());
  EXPECT_TRUE(b.AtEnd());
}

TEST_P(ConnectionQuotaTest, OverItsRateAnAddressIsHeldUnservedAndThenClosed) {
  auto server =
      Serve([](SocketServerOptions& options) { options.max_connection_creation_rate_per_ip = 1; });
  const auto before = std::chrono::steady_clock::now();
  Client a(server->port());
  EXPECT_TRUE(Served(a, "a"));
  std::vector<Client> throttled;
  for (int i = 0; i < 5; ++i) {
    throttled.emplace_back(server->port());
    throttled.back().SendFrame("is there anybody?");
  }
  ASSERT_TRUE(server->AwaitMetric("network_connections_throttled_per_ip_total", 5));
  EXPECT_EQ(server->server().connection_count(), 1) << "they are not counted";
  EXPECT_EQ(server->server().connection_quotas().held(), 0);
  // Only the one that is admitted is not disturbed.
  // Each is held until one more would have passed: a second after the first.
  for (Client& client : throttled) EXPECT_TRUE(client.AtEnd());
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  EXPECT_TRUE(Served(a, "a again"));
  EXPECT_EQ(OfListener(*server, "connection_accept"), 1);
  EXPECT_EQ(OfListener(*server, "connection_accept_throttle"), 0);
  EXPECT_EQ(OfListener(*server, "ip_connection_accept_throttle"), 5);
  EXPECT_GE(OfListener(*server, "ip_connection_accept_throttletimems"), 5);
}

// --- server and listener -------------------------------------------------------------------

TEST_P(ConnectionQuotaTest, AtTheServersMaximumClientsWaitAndAreServedInTheEnd) {
  auto server = Serve([](SocketServerOptions& options) { options.max_connections = 3; });
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 9; ++i) {
    waiting.push_back(std::make_unique<Client>(server->port()));
    waiting.back()->SendFrame("hello");
  }
  // Which of them are in is the kernel's choice with several listening sockets.
  while (!waiting.empty()) {
    ASSERT_TRUE(AwaitTrue([&] {
      EXPECT_LE(server->server().connection_count(), 3);
      for (auto at = waiting.begin(); at != waiting.end(); ++at) {
        if (!(*at)->Readable(0)) continue;
        EXPECT_EQ((*at)->ReadFrame(), "hello");
        waiting.erase(at);
        return true;
      }
      return false;
    }));
  }
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_GE(server->Metric("network_accept_pauses_total"), 1);
}

TEST_P(ConnectionQuotaTest, AListenersMaximumIsItsOwn) {
  auto server = Serve([](SocketServerOptions& options) {
    options.listeners = {Named("A://127.0.0.1:0"), Named("B://127.0.0.1:0")};
    options.listeners[0].max_connections = 1;
  });
  const std::vector<Endpoint>& bound = server->server().bound_endpoints();
  Client a(bound[0].port);
  EXPECT_TRUE(Served(a, "a"));
  Client waits(bound[0].port);
  waits.SendFrame("waits");
  std::vector<Client> others;
  for (int i = 0; i < 5; ++i) {
    others.emplace_back(bound[1].port);
    EXPECT_TRUE(Served(others.back(), "other"));
  }
  EXPECT_FALSE(waits.Readable(20));
  ASSERT_TRUE(server->server().connection_quotas().SetListenerMaxConnections("A", 2).ok());
  EXPECT_EQ(waits.ReadFrame(), "waits");
}

TEST_P(ConnectionQuotaTest, OverridesOfListenersChangeAtRunTime) {
  auto server = Serve([](SocketServerOptions& options) {
    options.listeners = {Named("A://127.0.0.1:0"), Named("B://127.0.0.1:0")};
    options.listeners[1].num_network_threads = 1;
  });
  SocketServer& network = server->server();
  EXPECT_FALSE(network.SetListenerOverrides("A.max_connections=1,B.num_network_threads=3").ok());
  EXPECT_FALSE(network.SetListenerOverrides("C.max_connections=1").ok());
  ASSERT_TRUE(network.SetListenerOverrides("A.max_connections=1,B.num_network_threads=1").ok());
  const uint16_t port = network.bound_endpoints()[0].port;
  Client a(port);
  EXPECT_TRUE(Served(a, "a"));
  Client waits(port);
  waits.SendFrame("waits");
  EXPECT_FALSE(waits.Readable(20));
  ASSERT_TRUE(network.SetListenerOverrides("B.num_network_threads=1").ok());
  EXPECT_EQ(waits.ReadFrame(), "waits");
}

TEST_P(ConnectionQuotaTest, OverTheServersRateClientsWaitAndAreServedInTheEnd) {
  auto server =
      Serve([](SocketServerOptions& options) { options.max_connection_creation_rate = 50; });
  std::vector<Client> clients;
  for (int i = 0; i < 80; ++i) {
    clients.emplace_back(server->port());
    clients.back().SendFrame("hello");
  }
  for (Client& client : clients) EXPECT_EQ(client.ReadFrame(), "hello");
  EXPECT_GE(server->Metric("network_accept_pauses_total"), 1);
  EXPECT_EQ(server->server().connection_quotas().held(), 0);
  EXPECT_EQ(OfListener(*server, "connection_accept"), 80);
  EXPECT_GE(OfListener(*server, "connection_accept_throttle"), 1);
  EXPECT_GE(OfListener(*server, "connection_accept_throttletimems"),
            OfListener(*server, "connection_accept_throttle"));
  EXPECT_EQ(OfListener(*server, "ip_connection_accept_throttle"), 0);
}

TEST_P(ConnectionQuotaTest, AProtectedListenerPassesAFullServerAndTheLeastUsedIsShed) {
  auto server = Serve([](SocketServerOptions& options) {
    options.listeners = {Named("EXTERNAL://127.0.0.1:0"), Named("REPLICATION://127.0.0.1:0")};
    options.listeners[0].num_network_threads = 1;
    options.listeners[1].inter_broker = true;
    options.max_connections = 3;
  });
  const std::vector<Endpoint>& bound = server->server().bound_endpoints();
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(bound[0].port);
    ASSERT_TRUE(Served(clients.back(), "first"));
  }
  // The first one is used again, so the second is the one used least recently.
  ASSERT_TRUE(Served(clients[0], "again"));
  Client broker(bound[1].port);
  EXPECT_TRUE(Served(broker, "broker"));
  EXPECT_TRUE(clients[1].AtEnd());
  EXPECT_TRUE(server->AwaitConnections(3));
  EXPECT_TRUE(Served(clients[0], "still here"));
  EXPECT_TRUE(Served(clients[2], "still here"));
  EXPECT_EQ(server->Metric("network_connections_shed_total"), 1);
}

TEST_P(ConnectionQuotaTest, ALoweredMaximumShedsAndARaisedOneLetsWaitersIn) {
  auto server = Serve([](SocketServerOptions& options) { options.num_network_threads = 3; });
  ConnectionQuotas& quotas = server->server().connection_quotas();
  std::vector<Client> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(server->port());
    ASSERT_TRUE(Served(clients.back(), "hello"));
  }
  ASSERT_TRUE(quotas.SetMaxConnections(7).ok());
  EXPECT_TRUE(server->AwaitConnections(7));
  EXPECT_EQ(server->Metric("network_connections_shed_total"), 13);
  Client waits(server->port());
  waits.SendFrame("waits");
  EXPECT_FALSE(waits.Readable(20));
  ASSERT_TRUE(quotas.SetMaxConnections(8).ok());
  EXPECT_EQ(waits.ReadFrame(), "waits");
  int alive = 0;
  for (Client& client : clients) {
    client.SendFrame("alive?");
    alive += client.ReadFrame() == "alive?";
  }
  EXPECT_EQ(alive, 7);
}

TEST_P(ConnectionQuotaTest, TheOnlyListenerIsNotProtectedWhoeverUsesIt) {
  auto server = Serve([](SocketServerOptions& options) {
    options.listeners = {Named("BROKERS://127.0.0.1:0")};
    options.listeners[0].inter_broker = true;
  });
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(server->port());
    ASSERT_TRUE(Served(clients.back(), "hello"));
  }
  ASSERT_TRUE(server->server().connection_quotas().SetMaxConnections(2).ok());
  EXPECT_TRUE(server->AwaitConnections(2));
}

// --- who accepts ---------------------------------------------------------------------------

TEST_P(ConnectionQuotaTest, EveryProcessorGetsConnections) {
  Mutex mutex;
  std::map<std::string, int> by_thread;
  auto server = Serve(
      [](SocketServerOptions& options) {
        options.num_network_threads = 3;
        options.processor.connection.dispatch = Dispatch::kInline;
      },
      [&](RequestPtr request) {
        char name[16] = "";
        pthread_getname_np(pthread_self(), name, sizeof(name));
        {
          MutexLock lock(mutex);
          ++by_thread[name];
        }
        Echo(std::move(request));
      });
  std::vector<Client> clients;
  for (int i = 0; i < 90; ++i) {
    clients.emplace_back(server->port());
    ASSERT_TRUE(Served(clients.back(), "hello"));
  }
  MutexLock lock(mutex);
  ASSERT_EQ(by_thread.size(), 3u);
  for (const auto& [name, count] : by_thread) {
    // The kernel spreads by a hash of the addresses, the acceptor by load.
    if (!reuse_port()) EXPECT_EQ(count, 30) << name;
  }
}

TEST_P(ConnectionQuotaTest, WhileThreadsComeAndGoEveryClientIsAcceptedAndServed) {
  // With reuseport a listening socket that were closed would reset its backlog, and a
  // processor without one would get no connections.
  auto server = Serve([](SocketServerOptions& options) {
    options.num_network_threads = 2;
    options.max_connections = 20;
    options.sockets.listen_backlog_size = 256;
  });
  std::atomic<bool> done{false};
  std::atomic<int> served{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      while (!done.load()) {
        Client client(server->port());
        ASSERT_TRUE(Served(client, "hello"));
        ++served;
      }
    });
  }
  for (int32_t threads : {4, 2, 1, 2, 4, 3}) {
    const int before = served.load();
    ASSERT_TRUE(server->server().ResizeNetworkThreads(threads).ok());
    EXPECT_EQ(server->server().network_threads(), threads);
    EXPECT_TRUE(AwaitTrue([&] { return served.load() > before + 30; }));
  }
  done.store(true);
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(server->server().connection_quotas().held(), 0);
}

TEST_P(ConnectionQuotaTest, WhatIsHeldMovesWithItsListeningSocket) {
  auto server = Serve([](SocketServerOptions& options) {
    options.num_network_threads = 2;
    options.max_connections = 2;
  });
  std::vector<Client> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back(server->port());
    clients.back().SendFrame("hello");
  }
  ASSERT_TRUE(server->AwaitConnections(2));
  ASSERT_TRUE(server->server().ResizeNetworkThreads(1).ok());
  // Each is in the backlog, held or served; none was lost on the way.
  ASSERT_TRUE(server->server().connection_quotas().SetMaxConnections(20).ok());
  for (Client& client : clients) EXPECT_EQ(client.ReadFrame(), "hello");
}

TEST_P(ConnectionQuotaTest, ABurstOfClientsWaitsWholeWhileAcceptingPauses) {
  // Clients beyond the listening socket's backlog believe that they are connected, and
  // are reset when they are let in at last.
  auto server = Serve([](SocketServerOptions& options) { options.max_connections = 1; });
  Client first(server->port());
  ASSERT_TRUE(Served(first, "hello"));
  std::vector<Client> burst;
  for (int i = 0; i < 300; ++i) {
    burst.emplace_back(server->port());
    burst.back().SendFrame("hello");
  }
  ASSERT_TRUE(server->server().connection_quotas().SetMaxConnections(1000).ok());
  int answered = 0;
  for (Client& client : burst) answered += client.ReadFrame() == "hello" ? 1 : 0;
  EXPECT_EQ(answered, 300);
}

TEST_P(ConnectionQuotaTest, AnIpv6ListenerOnPortZeroServes) {
  auto server =
      Serve([](SocketServerOptions& options) { options.listeners = {Named("SIX://[::1]:0")}; });
  const Endpoint& bound = server->server().bound_endpoints()[0];
  EXPECT_NE(bound.port, 0);
  const UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress address = *ToSocketAddress(bound);
  ASSERT_EQ(connect(fd.get(), address.get(), address.size), 0);
  const std::string frame = Framed("over six");
  ASSERT_EQ(send(fd.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  std::string answer(frame.size(), '\0');
  ASSERT_EQ(recv(fd.get(), answer.data(), answer.size(), MSG_WAITALL),
            static_cast<ssize_t>(answer.size()));
  EXPECT_EQ(answer, frame);
}

TEST_P(ConnectionQuotaTest, AStopClosesWhatIsHeldThrottledAndListening) {
  const int before = OpenDescriptors();
  std::vector<Client> clients;
  {
    auto server = Serve([](SocketServerOptions& options) {
      options.listeners = {Named("A://127.0.0.1:0"), Named("B://127.0.0.1:0")};
      options.listeners[0].max_connections = 1;
      options.max_connection_creation_rate_per_ip = 4;
    });
    for (int i = 0; i < 12; ++i) {
      clients.emplace_back(server->server().bound_endpoints()[static_cast<size_t>(i) % 2].port);
    }
    ASSERT_TRUE(server->AwaitMetric("network_connections_throttled_per_ip_total", 1));
    server->server().Stop();
    EXPECT_EQ(server->server().connection_count(), 0);
    EXPECT_EQ(server->server().connection_quotas().held(), 0);
  }
  for (Client& client : clients) EXPECT_TRUE(client.AtEnd());
  clients.clear();
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace gyre::testing
