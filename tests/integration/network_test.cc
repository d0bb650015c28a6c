// engine/network over real rings and loopback sockets, with every feature the
// kernel has and with every optional one hidden.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/network_modes.h"

namespace gyre::testing {
namespace {

using Clock = std::chrono::steady_clock;

int64_t MsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

class NetworkTest : public NetworkModeTest {};
INSTANTIATE_TEST_SUITE_P(Modes, NetworkTest, AllNetworkModes(), NameOfMode);

// --- frames -----------------------------------------------------------------------

TEST_P(NetworkTest, ManyConnectionsEachGetTheirOwnBytesBack) {
  auto server = Serve(Echo);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (uint64_t c = 0; c < 8; ++c) {
    threads.emplace_back([&, c] {
      Client client(server->port());
      for (uint64_t i = 0; i < 100; ++i) {
        const std::string payload = Pattern((i * 37 + c * 1000) % 20'000, c * 1000 + i);
        client.SendFrame(payload);
        if (client.ReadFrame() == payload) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 800);
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(server->Metric("network_frames_received_total"), 800);
}

TEST_P(NetworkTest, AnEmptyFrameIsAFrame) {
  auto server = Serve(Echo);
  Client client(server->port());
  client.SendFrame("");
  EXPECT_EQ(client.ReadFrame(), "");
}

TEST_P(NetworkTest, PipelinedFramesAreAnsweredInOrder) {
  for (const int in_flight : {1, 5}) {
    auto server = Serve(Echo, [&](SocketServerOptions& options) {
      options.processor.connection.max_in_flight_requests_per_connection = in_flight;
    });
    Client client(server->port());
    std::string stream;
    for (int i = 0; i < 3000; ++i) stream += Framed(absl::StrCat("request ", i));
    client.SendInBackground(stream);
    for (int i = 0; i < 3000; ++i) {
      ASSERT_EQ(client.ReadFrame(), absl::StrCat("request ", i)) << in_flight;
    }
  }
}

TEST_P(NetworkTest, RequestsThatFinishInAnyOrderLeaveInTheirs) {
  Held held;
  std::atomic<bool> stop{false};
  std::atomic<int> most_in_flight{0};
  auto server = Serve([&](Request* request) { held.Add(request); },
                      [](SocketServerOptions& options) {
                        options.processor.connection.max_in_flight_requests_per_connection = 7;
                      });
  // Answers what is held, the newest first.
  std::thread answerer([&] {
    while (!stop) {
      std::vector<Request*> requests = held.TakeAll();
      most_in_flight = std::max<int>(most_in_flight, static_cast<int>(requests.size()));
      for (auto it = requests.rbegin(); it != requests.rend(); ++it) Echo(*it);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  {
    Client client(server->port());
    std::string stream;
    for (int i = 0; i < 2000; ++i) stream += Framed(absl::StrCat("request ", i));
    client.SendInBackground(stream);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(client.ReadFrame(), absl::StrCat("request ", i));
  }
  EXPECT_TRUE(server->AwaitConnections(0));
  stop = true;
  answerer.join();
  EXPECT_GT(most_in_flight, 1);
  EXPECT_LE(most_in_flight, 7);
}

TEST_P(NetworkTest, FramesOfAMegabyteAndMoreDoNotStall) {
  auto server = Serve(Echo);
  Client client(server->port());
  const Clock::time_point start = Clock::now();
  for (const size_t size :
       {16'380u, 16'384u, 65'536u, 262'140u, 262'144u, 262'145u, 1u << 20, 20u << 20}) {
    const std::string payload = Pattern(size, size);
    client.SendInBackground(Framed(payload) + Framed("small"));
    ASSERT_TRUE(client.ReadFrame() == payload) << size;
    ASSERT_EQ(client.ReadFrame(), "small") << size;
  }
  EXPECT_LT(MsSince(start), 15'000);
}

TEST_P(NetworkTest, SeveralLargeFramesAtOnceComeThrough) {
  auto server = Serve(Echo);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (uint64_t c = 0; c < 6; ++c) {
    threads.emplace_back([&, c] {
      Client client(server->port());
      for (uint64_t i = 0; i < 4; ++i) {
        const std::string payload = Pattern(1'000'000 + c * 333'333, c * 10 + i);
        client.SendInBackground(Framed(payload));
        if (client.ReadFrame() == payload) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 24);
}

TEST_P(NetworkTest, AFrameThatComesByteByByteIsWhole) {
  auto server = Serve(Echo);
  Client client(server->port());
  const std::string payload = Pattern(300, 1);
  for (const char byte : Framed(payload) + Framed("next")) {
    client.Send(absl::string_view(&byte, 1));
  }
  EXPECT_EQ(client.ReadFrame(), payload);
  EXPECT_EQ(client.ReadFrame(), "next");
}

TEST_P(NetworkTest, FewReceiveBuffersAreEnoughForManyConnections) {
  auto server = Serve(Echo, [](SocketServerOptions& options) {
    options.num_network_threads = 1;
    options.processor.receive_buffer_bytes = 4096;
    options.processor.receive_buffer_count = 4;
  });
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (uint64_t c = 0; c < 16; ++c) {
    threads.emplace_back([&, c] {
      Client client(server->port());
      for (uint64_t i = 0; i < 20; ++i) {
        const std::string payload = Pattern(10'000 + i * 700, c * 100 + i);
        client.SendInBackground(Framed(payload));
        if (client.ReadFrame() == payload) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 320);
}

// --- ends of connections ------------------------------------------------------------

TEST_P(NetworkTest, AHalfClosedClientGetsItsAnswersThenTheEnd) {
  auto server = Serve(Echo);
  Client client(server->port());
  client.Send(Framed("one") + Framed("two") + Framed("three"));
  client.FinishSending();
  EXPECT_EQ(client.ReadFrame(), "one");
  EXPECT_EQ(client.ReadFrame(), "two");
  EXPECT_EQ(client.ReadFrame(), "three");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(NetworkTest, AHalfClosedClientIsAnsweredLater) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); });
  Client client(server->port());
  client.SendFrame("late");
  client.FinishSending();
  ASSERT_TRUE(held.Await(1));
  EXPECT_FALSE(client.Readable(100));
  for (Request* request : held.TakeAll()) Echo(request);
  EXPECT_EQ(client.ReadFrame(), "late");
  EXPECT_TRUE(client.AtEnd());
}

TEST_P(NetworkTest, WholeFramesBeforeTheEndAreAllProcessed) {
  std::atomic<int> count{0};
  auto server = Serve([&](Request* request) {
    ++count;
    request->ReplyNothing();
  });
  Client client(server->port());
  std::string stream;
  for (int i = 0; i < 10; ++i) stream += Framed(absl::StrCat("acks=0 ", i));
  client.Send(stream + Framed("cut short").substr(0, 7));
  client.Close();
  EXPECT_TRUE(AwaitTrue([&] { return count == 10; }));
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(count, 10);
}

TEST_P(NetworkTest, AResetFreesTheSocketWhileTheHandlerStillHasTheRequest) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); });
  Client client(server->port());
  client.SendFrame("held");
  ASSERT_TRUE(held.Await(1));
  client.Reset();
  EXPECT_TRUE(server->AwaitConnections(0));
  for (Request* request : held.TakeAll()) Echo(request);
}

TEST_P(NetworkTest, AnAnswerForOneWhoIsGoneIsCountedAllTheSame) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); });
  const auto answered = [&] {
    return server->Metric("kafka_network_requestmetrics_requests_total", "request=\"unknown\"");
  };
  Client client(server->port());
  client.SendFrame("held");
  ASSERT_TRUE(held.Await(1));
  client.Reset();
  ASSERT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(answered(), 0);
  for (Request* request : held.TakeAll()) ReplyFramed(request, Pattern(550'000, 1));
  EXPECT_TRUE(AwaitTrue([&] { return answered() == 1; }));
}

TEST_P(NetworkTest, AcceptedSocketsHaveTheOptionsOfTheirListener) {
  auto server =
      Serve(Echo, [](SocketServerOptions& options) { options.sockets.send_buffer_bytes = 65536; });
  Client client(server->port());
  client.SendFrame("a");
  ASSERT_EQ(client.ReadFrame(), "a");
  const auto option = [](int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    getsockopt(fd, level, name, &value, &size);
    return value;
  };
  int found = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    sockaddr_in peer = {};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != client.local_port()) continue;
    ++found;
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_SNDBUF), 2 * 65536);  // socket(7): doubled
  }
  EXPECT_EQ(found, 1);
}

TEST_P(NetworkTest, AResetIsNoticedWhenReceivingStopped) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); });
  Client client(server->port());
  client.SendFrame("held");
  ASSERT_TRUE(held.Await(1));
  // Far beyond the receive-ahead bound.
  client.SendUntilFull(Framed(Pattern(32 << 20, 1)));
  if (GetParam().disabled[0] == '\0') {
    ASSERT_TRUE(server->AwaitMetric("network_receive_cancelled_total", 1));
  }
  EXPECT_LT(server->Metric("network_received_bytes_total"), 1 << 20);
  client.Reset();
  EXPECT_TRUE(server->AwaitConnections(0));
  for (Request* request : held.TakeAll()) Echo(request);
}

TEST_P(NetworkTest, ReceiveAheadGoesOnAfterTheAnswer) {
  Held held;
  std::atomic<bool> hold{true};
  auto server = Serve([&](Request* request) {
    if (hold) {
      held.Add(request);
    } else {
      Echo(request);
    }
  });
  Client client(server->port());
  client.SendFrame("first");
  ASSERT_TRUE(held.Await(1));
  const std::string large = Pattern(3 << 20, 1);
  std::string stream;
  for (int i = 0; i < 40; ++i) stream += Framed(Pattern(10'000, i));
  client.SendInBackground(stream + Framed(large));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  hold = false;
  for (Request* request : held.TakeAll()) Echo(request);
  EXPECT_EQ(client.ReadFrame(), "first");
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.ReadFrame() == Pattern(10'000, i)) << i;
  EXPECT_TRUE(client.ReadFrame() == large);
}

TEST_P(NetworkTest, AHandlerMayCloseTheConnection) {
  auto server = Serve([](Request* request) {
    if (request->frame() == "bad") {
      request->CloseConnection("a request this test does not like");
    } else {
      Echo(request);
    }
  });
  Client client(server->port());
  client.Send(Framed("good") + Framed("bad") + Framed("unread"));
  EXPECT_EQ(client.ReadFrame(), "good");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

// --- bad input ----------------------------------------------------------------------

TEST_P(NetworkTest, BadFramesCloseTheirConnectionAndNoOther) {
  auto server = Serve(Echo, [](SocketServerOptions& options) {
    options.processor.connection.socket_request_max_bytes = 10'000;
  });
  Client bystander(server->port());
  std::string negative(4, '\0');
  StoreBigEndian<int32_t>(negative.data(), -5);
  std::string oversize(4, '\0');
  StoreBigEndian<int32_t>(oversize.data(), 10'001);
  const std::string inputs[] = {negative, oversize, "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                Pattern(5000, 3).replace(0, 1, "\xff")};
  for (const std::string& input : inputs) {
    Client client(server->port());
    client.Send(input);
    EXPECT_TRUE(client.AtEnd());
    bystander.SendFrame("still here");
    EXPECT_EQ(bystander.ReadFrame(), "still here");
  }
  EXPECT_EQ(server->Metric("network_frames_invalid_total"), 5);
  Client at_limit(server->port());
  const std::string payload = Pattern(10'000, 4);
  at_limit.SendFrame(payload);
  EXPECT_EQ(at_limit.ReadFrame(), payload);
}

TEST_P(NetworkTest, WhatCameBeforeABadFrameIsAnswered) {
  auto server = Serve(Echo);
  Client client(server->port());
  client.Send(Framed("good") + std::string("\xff\xff\xff\xff", 4));
  EXPECT_EQ(client.ReadFrame(), "good");
  EXPECT_TRUE(client.AtEnd());
}

// --- limits -------------------------------------------------------------------------

TEST_P(NetworkTest, AnIdleConnectionIsClosedOnTimeAndABusyOneIsSpared) {
  Held held;
  auto server = Serve(
      [&](Request* request) {
        if (request->frame() == "hold") {
          held.Add(request);
        } else {
          Echo(request);
        }
      },
      [](SocketServerOptions& options) {
        options.processor.connection.connections_max_idle_ms = 300;
      });
  Client busy(server->port());
  busy.SendFrame("hold");
  ASSERT_TRUE(held.Await(1));
  const Clock::time_point start = Clock::now();
  Client idle(server->port());
  Client active(server->port());
  bool idle_ended = false;
  int64_t idle_ms = 0;
  while (MsSince(start) < 900) {
    active.SendFrame("alive");
    ASSERT_EQ(active.ReadFrame(), "alive");
    if (!idle_ended && idle.Readable(10)) {
      EXPECT_TRUE(idle.AtEnd());
      idle_ended = true;
      idle_ms = MsSince(start);
    }
  }
  EXPECT_TRUE(idle_ended);
  EXPECT_GE(idle_ms, 295);
  EXPECT_LT(idle_ms, 800);
  EXPECT_FALSE(busy.Readable(0));
  for (Request* request : held.TakeAll()) Echo(request);
  EXPECT_EQ(busy.ReadFrame(), "hold");
  EXPECT_TRUE(busy.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(NetworkTest, AHalfClosedConnectionWhoseRequestDoesNotEndExpires) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); },
                      [](SocketServerOptions& options) {
                        options.processor.connection.connections_max_idle_ms = 300;
                      });
  Client client(server->port());
  client.SendFrame("hold");
  client.FinishSending();
  ASSERT_TRUE(held.Await(1));
  const std::vector<Request*> requests = held.TakeAll();
  EXPECT_FALSE(requests[0]->session().gone);
  EXPECT_FALSE(client.Readable(100));
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_TRUE(AwaitTrue([&] { return requests[0]->session().gone.load(); }));
  Echo(requests[0]);
}

TEST_P(NetworkTest, TheConnectionBeyondThePerIpMaximumIsClosedAtOnce) {
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

TEST_P(NetworkTest, AtTheTotalMaximumConnectionsWaitAndAreServedInTurn) {
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

TEST_P(NetworkTest, WithoutDescriptorsAcceptingPausesAndRecovers) {
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

TEST_P(NetworkTest, TheMemoryBudgetHoldsBackTheSecondRequestUntilTheFirstIsDone) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); },
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
  for (Request* request : held.TakeAll()) Echo(request);
  EXPECT_TRUE(a.ReadFrame() == payload);
  ASSERT_TRUE(held.Await(1));
  for (Request* request : held.TakeAll()) Echo(request);
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
  for (Request* request : held.TakeAll()) Echo(request);
  EXPECT_TRUE(a.ReadFrame() == payload);
  EXPECT_TRUE(
      AwaitTrue([&] { return server->Metric("kafka_network_socketserver_memorypoolused") == 0; }));
}

TEST_P(NetworkTest, PartialRequestsThatHoldAllMemoryDoNotWaitForEachOtherForEver) {
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

TEST_P(NetworkTest, AFullRequestQueueParksConnectionsWhileReadyResponsesLeave) {
  if (GetParam().dispatch == Dispatch::kInline) GTEST_SKIP() << "no queue";
  Held later;
  Gate gate;
  const std::string large = Pattern(8 << 20, 5);
  auto server = Serve(
      [&](Request* request) {
        if (request->frame() == "later") {
          later.Add(request);
        } else if (request->frame() == "large") {
          ReplyFramed(request, large);
        } else {
          gate.Pass();
          Echo(request);
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
  for (Request* request : later.TakeAll()) ReplyFramed(request, "now");
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

TEST_P(NetworkTest, StopDropsTheRunsOfParkedConnections) {
  if (GetParam().dispatch == Dispatch::kInline) GTEST_SKIP() << "no queue";
  Gate gate;
  auto server = Serve(
      [&](Request* request) {
        gate.Pass();
        Echo(request);
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

TEST_P(NetworkTest, ConnectionsOfSeveralProcessorsTakeTurnsAtAFullQueue) {
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

// --- slow readers ---------------------------------------------------------------------

TEST_P(NetworkTest, ASlowReaderHoldsNobodyUp) {
  const std::string large = Pattern(4 << 20, 6);
  auto server = Serve(
      [&](Request* request) {
        if (request->frame() == "large") {
          ReplyFramed(request, large);
        } else {
          Echo(request);
        }
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.sockets.send_buffer_bytes = 8192;
      });
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(std::make_unique<Client>(server->port(), kSmallWindowBytes));
    slow.back()->SendFrame("large");
    ASSERT_TRUE(slow.back()->Readable(10'000));
  }
  Client quick(server->port());
  for (int i = 0; i < 300; ++i) {
    quick.SendFrame(absl::StrCat(i));
    ASSERT_EQ(quick.ReadFrame(), absl::StrCat(i));
  }
  for (size_t i = 0; i + 1 < slow.size(); ++i) EXPECT_TRUE(slow[i]->ReadFrame() == large);
  slow.back()->Reset();
  EXPECT_TRUE(server->AwaitConnections(5));
}

// --- drain and stop -------------------------------------------------------------------

TEST_P(NetworkTest, DrainAnswersWhatIsInFlightAndRefusesWhatIsNew) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); });
  Client idle(server->port());
  Client busy(server->port());
  busy.SendFrame("in flight");
  Client partial(server->port());
  const std::string frame = Framed("begun before the drain");
  partial.Send(frame.substr(0, 9));
  ASSERT_TRUE(held.Await(1));
  ASSERT_TRUE(server->AwaitConnections(3));
  ASSERT_TRUE(server->AwaitMetric("network_received_bytes_total", 13 + 9));
  server->server().BeginDrain();
  EXPECT_TRUE(idle.AtEnd());
  partial.Send(frame.substr(9));
  ASSERT_TRUE(held.Await(2));
  EXPECT_FALSE(server->server().Drain(50));
  for (Request* request : held.TakeAll()) Echo(request);
  EXPECT_TRUE(server->server().Drain(10'000));
  EXPECT_EQ(busy.ReadFrame(), "in flight");
  EXPECT_TRUE(busy.AtEnd());
  EXPECT_EQ(partial.ReadFrame(), "begun before the drain");
  EXPECT_TRUE(partial.AtEnd());
  server->server().Stop();
  server->server().Stop();
}

TEST_P(NetworkTest, StopEndsEverythingAtOnceWithRequestsStillHeld) {
  Held held;
  auto server = Serve([&](Request* request) { held.Add(request); });
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(server->port());
    clients.back().SendFrame("held");
  }
  ASSERT_TRUE(held.Await(5));
  const Clock::time_point start = Clock::now();
  server->server().Stop();
  EXPECT_LT(MsSince(start), 4'000);
  for (Client& client : clients) EXPECT_TRUE(client.AtEnd());
  // Too late, and dropped.
  for (Request* request : held.TakeAll()) Echo(request);
}

// --- start ------------------------------------------------------------------------------

TEST(SocketServerStartTest, AnAddressInUseIsOneActionableLine) {
  TestServer server("", Echo);
  TestHandler handler(Echo);
  SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = {"TEST", "127.0.0.1", server.port()};
  SocketServer second(std::move(options), handler);
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_NE(status.message().find("in use"), absl::string_view::npos) << status;
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

TEST(SocketServerStartTest, OptionsOutOfRangeAreNamed) {
  TestHandler handler(Echo);
  const auto start = [&](const std::function<void(SocketServerOptions&)>& change) {
    SocketServerOptions options;
    options.listeners.resize(1);
    options.listeners[0].endpoint = {"TEST", "127.0.0.1", 0};
    change(options);
    SocketServer server(std::move(options), handler);
    return std::string(server.Start().message());
  };
  EXPECT_NE(start([](auto& o) { o.num_network_threads = 0; }).find("num_network_threads=0"),
            std::string::npos);
  EXPECT_NE(start([](auto& o) { o.queued_max_request_bytes = 5; }).find("queued_max_request_bytes"),
            std::string::npos);
  EXPECT_NE(start([](auto& o) {
              o.sockets.congestion_control = "nonesuch";
            }).find("socket_congestion_control=nonesuch"),
            std::string::npos);
  EXPECT_NE(start([](auto& o) { o.listeners.clear(); }).find("no listeners"), std::string::npos);
}

TEST(SocketServerStartTest, RegisteredBuffersMayBeRequired) {
  TestHandler handler(Echo);
  const auto start = [&](const char* disabled, bool require) {
    SocketServerOptions options;
    options.listeners.resize(1);
    options.listeners[0].endpoint = {"TEST", "127.0.0.1", 0};
    options.slab_bytes = 1 << 20;
    options.require_registered_buffers = require;
    const uring::Features features = *uring::ProbeFeatures(*uring::ParseDisabled(disabled));
    options.ring_factory = [features](absl::string_view) {
      return uring::CreateUringRing(features, uring::RingOptions());
    };
    SocketServer server(std::move(options), handler);
    return server.Start();
  };
  EXPECT_TRUE(start("register_buffers", false).ok());
  const absl::Status refused = start("register_buffers", true);
  EXPECT_NE(refused.message().find("require_registered_buffers"), absl::string_view::npos)
      << refused;
}

TEST(SocketServerStartTest, AServerThatWasNeverStartedStops) {
  TestHandler handler(Echo);
  SocketServer server(SocketServerOptions(), handler);
  server.Stop();
}

}  // namespace
}  // namespace gyre::testing
