// How connections end over real rings: half-closed, reset, closed by a handler, drained
// and stopped; with every feature the kernel has and with every optional one hidden.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/network_modes.h"

namespace gyre::testing {
namespace {

using Clock = std::chrono::steady_clock;

int64_t MsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

class NetworkCloseTest : public NetworkModeTest {};
INSTANTIATE_TEST_SUITE_P(Modes, NetworkCloseTest, AllNetworkModes(), NameOfMode);

// --- ends of connections ------------------------------------------------------------

TEST_P(NetworkCloseTest, AHalfClosedClientGetsItsAnswersThenTheEnd) {
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

TEST_P(NetworkCloseTest, AHalfClosedClientIsAnsweredLater) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
  Client client(server->port());
  client.SendFrame("late");
  client.FinishSending();
  ASSERT_TRUE(held.Await(1));
  EXPECT_FALSE(client.Readable(100));
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_EQ(client.ReadFrame(), "late");
  EXPECT_TRUE(client.AtEnd());
}

TEST_P(NetworkCloseTest, WholeFramesBeforeTheEndAreAllProcessed) {
  std::atomic<int> count{0};
  auto server = Serve([&](RequestPtr request) {
    ++count;
    request.ReplyNothing();
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

TEST_P(NetworkCloseTest, AResetFreesTheSocketWhileTheHandlerStillHasTheRequest) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
  Client client(server->port());
  client.SendFrame("held");
  ASSERT_TRUE(held.Await(1));
  client.Reset();
  EXPECT_TRUE(server->AwaitConnections(0));
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
}

TEST_P(NetworkCloseTest, AnAnswerForOneWhoIsGoneIsCountedAllTheSame) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
  const auto answered = [&] {
    return server->Metric("kafka_network_requestmetrics_requests_total", "request=\"unknown\"");
  };
  Client client(server->port());
  client.SendFrame("held");
  ASSERT_TRUE(held.Await(1));
  client.Reset();
  ASSERT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(answered(), 0);
  for (RequestPtr& request : held.TakeAll()) ReplyFramed(std::move(request), Pattern(550'000, 1));
  EXPECT_TRUE(AwaitTrue([&] { return answered() == 1; }));
}

TEST_P(NetworkCloseTest, AcceptedSocketsHaveTheOptionsOfTheirListener) {
  auto server = Serve(Echo, [](SocketServerOptions& options) {
    options.sockets.send_buffer_bytes = 65536;
    options.sockets.listen_backlog_size = 77;
  });
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
  int listening = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    if (option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1) {
      tcp_info info = {};
      socklen_t size = sizeof(info);
      ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
      EXPECT_EQ(info.tcpi_sacked, 77u);  // of one that listens: its backlog
      ++listening;
    }
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
  EXPECT_GE(listening, 1);
}

TEST_P(NetworkCloseTest, AResetIsNoticedWhenReceivingStopped) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
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
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
}

TEST_P(NetworkCloseTest, ReceiveAheadGoesOnAfterTheAnswer) {
  Held held;
  std::atomic<bool> hold{true};
  auto server = Serve([&](RequestPtr request) {
    if (hold) {
      held.Add(std::move(request));
    } else {
      Echo(std::move(request));
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
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_EQ(client.ReadFrame(), "first");
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.ReadFrame() == Pattern(10'000, i)) << i;
  EXPECT_TRUE(client.ReadFrame() == large);
}

TEST_P(NetworkCloseTest, AHandlerMayCloseTheConnection) {
  auto server = Serve([](RequestPtr request) {
    if (request->frame() == "bad") {
      request.CloseConnection("a request this test does not like");
    } else {
      Echo(std::move(request));
    }
  });
  Client client(server->port());
  client.Send(Framed("good") + Framed("bad") + Framed("unread"));
  EXPECT_EQ(client.ReadFrame(), "good");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(NetworkCloseTest, TheLastAnswerArrivesWholeThoughItsClientGoesOnSending) {
  const std::string answer = Pattern(1'000'000, 1);
  auto server = Serve([&](RequestPtr request) {
    request.ReplyThenClose(NetworkSend(Buffer::CopyOf(Framed(answer))));
  });
  Client client(server->port(), kSmallWindowBytes);
  client.SendFrame("the last one");
  ASSERT_TRUE(client.Readable(20'000));
  client.SendInBackground(std::string(1'000'000, 'x'));
  EXPECT_TRUE(client.ReadFrame() == answer);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

// --- drain and stop -------------------------------------------------------------------

TEST_P(NetworkCloseTest, DrainAnswersWhatIsInFlightAndRefusesWhatIsNew) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
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
  EXPECT_TRUE(AwaitTrue([&] { return Refuses(server->port()); }));
  partial.Send(frame.substr(9));
  EXPECT_TRUE(idle.AtEnd());
  ASSERT_TRUE(held.Await(2));
  EXPECT_FALSE(server->server().Drain(50));
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
  EXPECT_TRUE(server->server().Drain(10'000));
  EXPECT_EQ(busy.ReadFrame(), "in flight");
  EXPECT_TRUE(busy.AtEnd());
  EXPECT_EQ(partial.ReadFrame(), "begun before the drain");
  EXPECT_TRUE(partial.AtEnd());
  server->server().Stop();
  server->server().Stop();
}

TEST_P(NetworkCloseTest, AResetRightBehindBytesIsNoticed) {
  std::atomic<bool> blocks{false};
  std::atomic<bool> release{false};
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() == "block") {
          blocks.store(true);
          while (!release.load()) std::this_thread::yield();
        }
        Echo(std::move(request));
      },
      [](SocketServerOptions& options) { options.num_network_threads = 1; });
  Client resets(server->port());
  resets.SendFrame("armed");
  EXPECT_EQ(resets.ReadFrame(), "armed");
  // Dispatched inline, the processor sees neither before it has both.
  Client blocker(server->port());
  blocker.SendFrame("block");
  ASSERT_TRUE(AwaitTrue([&] { return blocks.load(); }));
  resets.Send(Framed("half a frame").substr(0, 9));
  resets.Reset();
  release.store(true);
  EXPECT_EQ(blocker.ReadFrame(), "block");
  EXPECT_TRUE(server->AwaitConnections(1));
}

TEST_P(NetworkCloseTest, ADrainWaitsForNoFrameThatDoesNotGetOn) {
  auto server = Serve([](RequestPtr request) { Echo(std::move(request)); });
  Client stalled(server->port());
  Client answered(server->port());
  Client moving(server->port());
  const std::string frame = Framed(std::string(100'000, 'm'));
  answered.SendFrame("served");
  EXPECT_EQ(answered.ReadFrame(), "served");
  const int64_t bytes = server->Metric("network_received_bytes_total");
  stalled.Send(frame.substr(0, 1));
  answered.Send(Framed("large").substr(0, 6));
  moving.Send(frame.substr(0, 5));
  ASSERT_TRUE(server->AwaitConnections(3));
  ASSERT_TRUE(server->AwaitMetric("network_received_bytes_total", bytes + 1 + 6 + 5));
  server->server().BeginDrain();
  // A byte now and then is something.
  size_t sent = 5;
  while (server->server().connection_count() > 1 && sent < 2'000) {
    moving.Send(frame.substr(sent++, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(stalled.AtEnd());
  EXPECT_TRUE(answered.AtEnd());
  moving.Send(frame.substr(sent));
  EXPECT_EQ(moving.ReadFrame(), std::string(100'000, 'm'));
  EXPECT_TRUE(server->server().Drain(20'000));
}

TEST_P(NetworkCloseTest, ADrainEndsThoughAClientAlwaysHasOneMoreRequestUnderWay) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
  Client client(server->port());
  const std::string frame = Framed("one more");
  const auto frame_bytes = static_cast<int64_t>(frame.size());
  client.Send(frame);
  ASSERT_TRUE(held.Await(1));
  client.Send(frame);
  ASSERT_TRUE(server->AwaitMetric("network_received_bytes_total", 2 * frame_bytes));
  server->server().BeginDrain();
  int answered = 0;
  for (; answered < 50; ++answered) {
    client.Send(frame);
    // Were it taken, it would be there when the one before is answered.
    const int64_t all_bytes = (3 + answered) * frame_bytes;
    for (int i = 0; i < 10 && server->Metric("network_received_bytes_total") < all_bytes; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(AwaitTrue([&] {
      std::vector<RequestPtr> requests = held.TakeAll();
      for (RequestPtr& request : requests) Echo(std::move(request));
      return !requests.empty() || client.Readable(0);
    }));
    if (client.ReadFrame() != "one more") break;
  }
  // Those that had come before the drain, and what came while it began.
  EXPECT_GE(answered, 2);
  EXPECT_LT(answered, 10);
  EXPECT_TRUE(server->server().Drain(10'000));
}

TEST_P(NetworkCloseTest, StopEndsEverythingAtOnceWithRequestsStillHeld) {
  Held held;
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); });
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
  for (RequestPtr& request : held.TakeAll()) Echo(std::move(request));
}

}  // namespace
}  // namespace gyre::testing
