// engine/network over real rings and loopback sockets, with every feature the
// kernel has and with every optional one hidden: frames, good and bad, slow readers, and
// what keeps a server from starting. How connections end and what limits hold them back
// is in network_close_test and network_limits_test.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/network_modes.h"
#include "tests/integration/open_descriptors.h"

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
  auto server = Serve([&](RequestPtr request) { held.Add(std::move(request)); },
                      [](SocketServerOptions& options) {
                        options.processor.connection.max_in_flight_requests_per_connection = 7;
                      });
  // Answers what is held, the newest first.
  std::thread answerer([&] {
    while (!stop) {
      std::vector<RequestPtr> requests = held.TakeAll();
      most_in_flight = std::max<int>(most_in_flight, static_cast<int>(requests.size()));
      for (auto it = requests.rbegin(); it != requests.rend(); ++it) Echo(std::move(*it));
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

// --- slow readers ---------------------------------------------------------------------

TEST_P(NetworkTest, ASlowReaderHoldsNobodyUp) {
  const std::string large = Pattern(4 << 20, 6);
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() == "large") {
          ReplyFramed(std::move(request), large);
        } else {
          Echo(std::move(request));
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

// --- misuse ---------------------------------------------------------------------------

#ifdef NDEBUG
TEST_P(NetworkTest, AHandlerThatStopsItsServerIsRefused) {
  SocketServer* stopped = nullptr;
  std::atomic<bool> drained{true};
  auto server = Serve([&](RequestPtr request) {
    stopped->Stop();
    if (request->frame() == "drain") drained = stopped->Drain(20'000);
    Echo(std::move(request));
  });
  stopped = &server->server();
  Client client(server->port());
  client.Send(Framed("stop") + Framed("drain"));
  EXPECT_EQ(client.ReadFrame(), "stop");
  EXPECT_EQ(client.ReadFrame(), "drain");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_FALSE(drained);
  EXPECT_TRUE(server->server().Drain(20'000));
  server->server().Stop();
}

TEST_P(NetworkTest, ARequestThatIsAnsweredTwiceHarmsNobody) {
  Held held;
  auto server = Serve([&](RequestPtr request) {
    if (request->frame() == "later") return held.Add(std::move(request));
    ReplyFramed(std::move(request), "first");
    ReplyFramed(std::move(request), "second");
  });
  Client twice(server->port());
  twice.Send(Framed("now") + Framed("now"));
  EXPECT_EQ(twice.ReadFrame(), "first");
  EXPECT_EQ(twice.ReadFrame(), "first");
  // The second comes when the first has left and another client asks, whose request lies
  // where the first one lay.
  twice.SendFrame("later");
  ASSERT_TRUE(held.Await(1));
  RequestPtr request = std::move(held.TakeAll()[0]);
  ReplyFramed(std::move(request), "first");
  EXPECT_EQ(twice.ReadFrame(), "first");
  Client other(server->port());
  other.SendFrame("later");
  ASSERT_TRUE(held.Await(1));
  ReplyFramed(std::move(request), "second");
  EXPECT_FALSE(other.Readable(30));
  ReplyFramed(std::move(held.TakeAll()[0]), "others");
  EXPECT_EQ(other.ReadFrame(), "others");
  twice.SendFrame("again");
  EXPECT_EQ(twice.ReadFrame(), "first");
  server->server().Stop();
}

TEST_P(NetworkTest, WhatOutlivesItsServerHarmsNobody) {
  Held held;
  ThrottleToken token;
  {
    auto server = Serve([&](RequestPtr request) {
      token = request->StartThrottling(1);
      held.Add(std::move(request));
    });
    Client client(server->port());
    client.SendFrame("kept");
    ASSERT_TRUE(held.Await(1));
  }
  token.End();
  RequestPtr request = std::move(held.TakeAll()[0]);
  EXPECT_EQ(request->frame(), "kept");
  Echo(std::move(request));
}
#else
TEST(NetworkDeathTest, AHandlerThatStopsItsServerEndsADebugBuild) {
  const auto stop = [] {
    SocketServer* stopped = nullptr;
    TestServer server("", [&](RequestPtr) { stopped->Stop(); });
    stopped = &server.server();
    Client client(server.port());
    client.SendFrame("stop");
    client.ReadFrame();
  };
  EXPECT_DEATH(stop(), "Stop was called by a handler");
}

TEST(NetworkDeathTest, AFrameThatOutlivesItsServerIsNamed) {
  const auto outlive = [] {
    Buffer kept;
    TestServer server("", [&](RequestPtr request) {
      kept = request->frame_buffer();
      Echo(std::move(request));
    });
    Client client(server.port());
    client.SendFrame("kept");
    client.ReadFrame();
  };
  EXPECT_DEATH(outlive(), "outlive their server");
}

TEST(NetworkDeathTest, ARequestOrATokenThatOutlivesItsServerIsNamed) {
  for (const bool answered : {false, true}) {
    const auto outlive = [answered] {
      Held held;
      ThrottleToken token;
      TestServer server("", [&](RequestPtr request) {
        if (answered) token = request->StartThrottling(1);
        answered ? Echo(std::move(request)) : held.Add(std::move(request));
      });
      Client client(server.port());
      client.SendFrame("kept");
      answered ? static_cast<void>(client.ReadFrame()) : static_cast<void>(held.Await(1));
    };
    EXPECT_DEATH(outlive(), "1 requests or throttle tokens outlive their server");
  }
}

#endif

TEST_P(NetworkTest, ARequestThatTheHandlerForgetsClosesItsConnectionAlone) {
  auto server = Serve([&](RequestPtr request) {
    if (request->frame() != "forget") Echo(std::move(request));
  });
  Client other(server->port());
  Client client(server->port());
  client.Send(Framed("before") + Framed("forget") + Framed("after"));
  EXPECT_EQ(client.ReadFrame(), "before");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(1));
  other.SendFrame("still here");
  EXPECT_EQ(other.ReadFrame(), "still here");
}

TEST(SocketServerStartTest, UntilItStartsItsPortRefusesAndStoppedItRefusesAgain) {
  TestHandler handler(Echo);
  SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = {"TEST", "127.0.0.1", 0};
  SocketServer server(std::move(options), handler);
  ASSERT_TRUE(server.Open().ok());
  const uint16_t port = server.bound_endpoints()[0].port;
  EXPECT_TRUE(Refuses(port));
  EXPECT_EQ(server.handler_threads(), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(server.ResizeHandlerThreads(2)));
  ASSERT_TRUE(server.Start().ok());
  Client client(port);
  client.SendFrame("a");
  EXPECT_EQ(client.ReadFrame(), "a");
  server.Stop();
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(Refuses(port));
}

TEST(SocketServerStartTest, ItStartsOnce) {
  TestHandler handler(Echo);
  SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = {"TEST", "127.0.0.1", 0};
  SocketServer server(std::move(options), handler);
  ASSERT_TRUE(server.Start().ok());
  Client client(server.bound_endpoints()[0].port);
  EXPECT_EQ(server.Start().code(), absl::StatusCode::kFailedPrecondition);
  client.SendFrame("it goes on");
  EXPECT_EQ(client.ReadFrame(), "it goes on");
  server.Stop();
  const absl::Status again = server.Start();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(again.message(), "a server that was stopped starts no more");
}

TEST(SocketServerStartTest, OneThatIsToldToDrainBeforeDoesNotStart) {
  for (const bool open : {false, true}) {
    TestHandler handler(Echo);
    SocketServerOptions options;
    options.listeners.resize(1);
    options.listeners[0].endpoint = {"TEST", "127.0.0.1", 0};
    SocketServer server(std::move(options), handler);
    if (open) {
      ASSERT_TRUE(server.Open().ok());
    }
    server.BeginDrain();
    EXPECT_EQ(server.Start().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(server.Drain(0));
  }
}

TEST(SocketServerStartTest, AServerThatWasNeverStartedStops) {
  TestHandler handler(Echo);
  const int before = OpenDescriptors();
  for (const bool open : {false, true}) {
    SocketServerOptions options;
    options.listeners.resize(2);
    options.listeners[0].endpoint = {"ONE", "127.0.0.1", 0};
    options.listeners[1].endpoint = {"TWO", "127.0.0.1", 0};
    SocketServer server(std::move(options), handler);
    if (open) {
      ASSERT_TRUE(server.Open().ok());
      EXPECT_GT(OpenDescriptors(), before);
    }
    server.Stop();
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace gyre::testing
