// What holds connections and requests back over real rings: idle time, numbers of
// connections, descriptors, request memory, a full request queue; with every feature the
// kernel has and with every optional one hidden.
#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
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
#include "tests/integration/network_modes.h"

namespace gyre::testing {
namespace {

class NetworkLimitsTest : public NetworkModeTest {};
INSTANTIATE_TEST_SUITE_P(Modes, NetworkLimitsTest, AllNetworkModes(), NameOfMode);

// --- limits -------------------------------------------------------------------------

TEST_P(NetworkLimitsTest, IdleConnectionsAreClosedOnTimeAllOfThemAndABusyOneIsSpared) {
  constexpr int kIdle = 5;
  ManualClock clock(1'000'000'000);
  Held held;
  auto server = Serve(
      [&](RequestPtr request) {
        request->frame() == "hold" ? held.Add(std::move(request)) : Echo(std::move(request));
      },
      [&](SocketServerOptions& options) {
        options.clock = &clock;
        options.num_network_threads = 1;
        options.processor.connection.connections_max_idle_ms = 300;
      });
  const auto use = [](Client& client) {
    client.SendFrame("alive");
    EXPECT_EQ(client.ReadFrame(), "alive");
  };
  Client busy(server->port()), active(server->port());
  busy.SendFrame("hold");
  ASSERT_TRUE(held.Await(1));
  std::vector<Client> idle;
  for (int i = 0; i < kIdle; ++i) {
    idle.emplace_back(server->port());
    use(idle.back());
  }
  // Once this is answered, the processor is through with the answers before it.
  use(active);
  clock.AdvanceMs(299);
  use(active);
  EXPECT_FALSE(idle[0].Readable(30));
  EXPECT_EQ(server->Metric("network_connections_expired_total"), 0);
  clock.AdvanceMs(2);
  for (Client& client : idle) EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(server->Metric("network_connections_expired_total"), kIdle);
  use(active);
  EXPECT_FALSE(busy.Readable(0));
  // Its time begins with its answer.
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_EQ(busy.ReadFrame(), "hold");
  use(active);
  clock.AdvanceMs(299);
  EXPECT_FALSE(busy.Readable(30));
  clock.AdvanceMs(2);
  EXPECT_TRUE(busy.AtEnd());
  clock.AdvanceMs(301);
  EXPECT_TRUE(active.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(NetworkLimitsTest, AHalfClosedConnectionWhoseRequestDoesNotEndExpires) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); },
                      [](SocketServerOptions& options) {
                        options.processor.connection.connections_max_idle_ms = 300;
                      });
  Client client(server->port());
  client.SendFrame("hold");
  client.FinishSending();
  ASSERT_TRUE(held.Await(1));
  std::vector<RequestPtr> requests = held.TakeAll();
  EXPECT_FALSE(requests[0]->session().gone);
  EXPECT_FALSE(client.Readable(100));
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_TRUE(AwaitTrue([&] { return requests[0]->session().gone.load(); }));
  Echo(std::move(requests[0]));
}

TEST_P(NetworkLimitsTest, TheConnectionBeyondThePerIpMaximumIsClosedAtOnce) {
  auto server =
      Serve(Echo, [](SocketServerOptions& options) { options.max_connections_per_ip = 2; });
  Client a(server->port());
  auto b = std::make_unique<Client>(server->port());
  a.SendFrame("a");
  EXPECT_EQ(a.ReadFrame(), "a");
  b->SendFrame("b");
  EXPECT_EQ(b->ReadFrame(), "b");
  Client refused(server->port());
  EXPECT_TRUE(refused.AtEnd());
  b.reset();
  ASSERT_TRUE(server->AwaitConnections(1));
  Client again(server->port());
  again.SendFrame("again");
  EXPECT_EQ(again.ReadFrame(), "again");
  EXPECT_EQ(server->Metric("network_connections_refused_per_ip_total"), 1);
}

TEST_P(NetworkLimitsTest, AtTheTotalMaximumConnectionsWaitAndAreServedInTurn) {
  auto server = Serve(Echo, [](SocketServerOptions& options) { options.max_connections = 3; });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->SendFrame(absl::StrCat(i));
  }
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(clients[static_cast<size_t>(i)]->ReadFrame(), absl::StrCat(i));
    EXPECT_LE(server->server().connection_count(), 3);
    if (i + 3 < 8) EXPECT_FALSE(clients[static_cast<size_t>(i) + 3]->Readable(30));
    clients[static_cast<size_t>(i)].reset();
  }
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(NetworkLimitsTest, WithoutDescriptorsAcceptingPausesAndRecovers) {
  // The kernel looks at the limit of descriptors when an accept is armed: here that is
  // when the maximum is raised.
  auto server = Serve(Echo, [](SocketServerOptions& options) { options.max_connections = 1; });
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  Client a(server->port());
  a.SendFrame("a");
  EXPECT_EQ(a.ReadFrame(), "a");
  UniqueFd second = Client::MakeSocket();
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(second.get()) + 8;
  std::vector<UniqueFd> taken;
  for (int fd = 0; fd < static_cast<int>(tight.rlim_cur); ++fd) {
    // More than once if need be: an accept that is being armed has a number reserved
    // for a moment.
    while (fcntl(fd, F_GETFD) < 0) taken.emplace_back(dup(0));
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const int64_t pauses = server->Metric("network_accept_pauses_total");
  ASSERT_TRUE(server->server().connection_quotas().SetMaxConnections(10).ok());
  Client b(std::move(second), server->port());
  b.SendFrame("b");
  EXPECT_TRUE(server->AwaitMetric("network_accept_pauses_total", pauses + 1));
  EXPECT_FALSE(b.Readable(50));
  a.SendFrame("a again");
  EXPECT_EQ(a.ReadFrame(), "a again");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(b.ReadFrame(), "b");
}

TEST_P(NetworkLimitsTest, TheMemoryBudgetHoldsBackTheSecondRequestUntilTheFirstIsDone) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); },
                      [](SocketServerOptions& options) {
                        options.processor.connection.socket_request_max_bytes = 1 << 20;
                        options.queued_max_request_bytes = (1 << 20) + 100'000;
                      });
  const std::string payload = Pattern(1 << 20, 1);
  Client a(server->port());
  a.SendInBackground(Framed(payload));
  ASSERT_TRUE(held.Await(1));
  Client b(server->port());
  b.SendInBackground(Framed(payload));
  ASSERT_TRUE(server->AwaitMetric("network_memory_waits_total", 1));
  EXPECT_LE(server->Metric("kafka_network_socketserver_memorypoolused"), (1 << 20) + 100'000);
  EXPECT_FALSE(b.Readable(50));
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_TRUE(a.ReadFrame() == payload);
  ASSERT_TRUE(held.Await(1));
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_TRUE(b.ReadFrame() == payload);
  EXPECT_TRUE(
      AwaitTrue([&] { return server->Metric("kafka_network_socketserver_memorypoolused") == 0; }));
  // One that goes away while it waits gives everything back, too.
  a.SendInBackground(Framed(payload));
  ASSERT_TRUE(held.Await(1));
  b.Send(Framed(payload).substr(0, 600'000));
  ASSERT_TRUE(server->AwaitMetric("network_memory_waits_total", 2));
  b.Reset();
  EXPECT_TRUE(server->AwaitConnections(1));
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_TRUE(a.ReadFrame() == payload);
  EXPECT_TRUE(
      AwaitTrue([&] { return server->Metric("kafka_network_socketserver_memorypoolused") == 0; }));
}

TEST_P(NetworkLimitsTest, PartialRequestsThatHoldAllMemoryDoNotWaitForEachOtherForEver) {
  auto server = Serve(Echo, [](SocketServerOptions& options) {
    options.num_network_threads = 1;
    options.processor.connection.socket_request_max_bytes = 1 << 20;
    options.queued_max_request_bytes = 2 << 20;
  });
  const std::string payload = Pattern(1 << 20, 1);
  const std::string frame = Framed(payload);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->Send(frame.substr(0, 600'000));
  }
  ASSERT_TRUE(server->AwaitMetric("network_memory_waits_total", 1));
  for (auto& client : clients) client->SendInBackground(frame.substr(600'000));
  int answered = 0;
  for (auto& client : clients) answered += client->ReadFrame() == payload ? 1 : 0;
  EXPECT_GE(answered, 1);
  clients.clear();
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(server->Metric("kafka_network_socketserver_memorypoolused"), 0);
}

// --- a full request queue -------------------------------------------------------------

// Requests that keep the handler's thread until the gate opens.
class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    ++waiting_;
    while (!open_) changed_.Wait(mutex_);
    --waiting_;
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  int waiting() {
    MutexLock lock(mutex_);
    return waiting_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_P(NetworkLimitsTest, AFullRequestQueueParksConnectionsWhileReadyResponsesLeave) {
  if (GetParam().dispatch == Dispatch::kInline) GTEST_SKIP() << "no queue";
  Held later;
  Gate gate;
  const std::string large = Pattern(8 << 20, 5);
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() == "later") {
          later.Add(std::move(request));
        } else if (request->frame() == "large") {
          ReplyFramed(std::move(request), large);
        } else {
          gate.Pass();
          Echo(std::move(request));
        }
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.num_io_threads = 1;
        options.queued_max_requests = 2;
      });
  // One response is under way to a slow reader, three wait for their handlers'
  // other halves.
  Client slow(server->port(), kSmallWindowBytes);
  slow.SendFrame("large");
  ASSERT_EQ(slow.Read(4).size(), 4u);
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(std::make_unique<Client>(server->port()));
    waiting.back()->SendFrame("later");
  }
  ASSERT_TRUE(later.Await(3));
  // The handler is held, the queue is full, and the others are parked.
  std::vector<std::unique_ptr<Client>> blocked;
  for (int i = 0; i < 12; ++i) {
    blocked.push_back(std::make_unique<Client>(server->port()));
    blocked.back()->SendFrame(absl::StrCat("blocked ", i));
  }
  ASSERT_TRUE(AwaitTrue([&] { return gate.waiting() == 1; }));
  ASSERT_TRUE(server->AwaitMetric("network_requests_parked_total", 9));

  EXPECT_TRUE(slow.Read(large.size()) == large);
  for (RequestPtr& request : later.TakeAll()) ReplyFramed(std::move(request), "now");
  for (auto& client : waiting) EXPECT_EQ(client->ReadFrame(), "now");
  for (auto& client : blocked) EXPECT_FALSE(client->Readable(0));

  // The request of a parked connection that goes away is still started.
  blocked.back()->Reset();
  blocked.pop_back();
  gate.Open();
  for (size_t i = 0; i < blocked.size(); ++i) {
    EXPECT_EQ(blocked[i]->ReadFrame(), absl::StrCat("blocked ", i));
  }
  EXPECT_TRUE(server->AwaitConnections(static_cast<int64_t>(1 + 3 + blocked.size())));
}

TEST_P(NetworkLimitsTest, StopDropsTheRunsOfParkedConnections) {
  if (GetParam().dispatch == Dispatch::kInline) GTEST_SKIP() << "no queue";
  Gate gate;
  auto server = Serve(
      [&](RequestPtr request) {
        gate.Pass();
        Echo(std::move(request));
      },
      [](SocketServerOptions& options) {
        options.num_io_threads = 1;
        options.queued_max_requests = 2;
        options.processor.connection.max_in_flight_requests_per_connection = 3;
      });
  std::vector<Client> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(server->port());
    clients.back().Send(Framed("a") + Framed("b") + Framed("c") + Framed("d"));
  }
  ASSERT_TRUE(AwaitTrue([&] { return gate.waiting() == 1; }));
  ASSERT_TRUE(server->AwaitMetric("network_requests_parked_total", 5));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate.Open();
  });
  server->server().Stop();
  for (Client& client : clients) {
    while (client.ReadFrame() != "<closed>") {
    }
  }
  opener.join();
}

TEST_P(NetworkLimitsTest, ConnectionsOfSeveralProcessorsTakeTurnsAtAFullQueue) {
  if (GetParam().dispatch == Dispatch::kInline) GTEST_SKIP() << "no queue";
  auto server = Serve(Echo, [](SocketServerOptions& options) {
    options.num_network_threads = 3;
    options.num_io_threads = 2;
    options.queued_max_requests = 2;
  });
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int c = 0; c < 24; ++c) {
    threads.emplace_back([&, c] {
      Client client(server->port());
      for (int i = 0; i < 200; ++i) {
        client.SendFrame(absl::StrCat(c, " ", i));
        if (client.ReadFrame() == absl::StrCat(c, " ", i)) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 24 * 200);
}

}  // namespace
}  // namespace gyre::testing
