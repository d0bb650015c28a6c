// Several requests of one connection in flight: order, limits, and those that run
// alone. Over real rings, on handlers and on the processor. Random completion orders
// are the simulation's subject.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/network_modes.h"

namespace gyre::testing {
namespace {

class PipeliningTest : public NetworkModeTest {
 protected:
  // Holds every request for the test to answer; "now" is answered at once.
  std::unique_ptr<TestServer> ServeHeld(
      int32_t in_flight, const std::function<void(SocketServerOptions&)>& change = {}) {
    return Serve(
        [this](RequestPtr request) {
          started_.fetch_add(1);
          if (request->frame() == "now") return Echo(std::move(request));
          held_.Add(std::move(request));
        },
        [&](SocketServerOptions& options) {
          options.processor.connection.max_in_flight_requests_per_connection = in_flight;
          if (change) change(options);
        });
  }
  static std::string Numbers(int count, int from = 0) {
    std::string stream;
    for (int i = from; i < from + count; ++i) stream += Framed(absl::StrCat("hold ", i));
    return stream;
  }

  Held held_;
  std::atomic<int> started_{0};
};

INSTANTIATE_TEST_SUITE_P(Modes, PipeliningTest, AllNetworkModes(), NameOfMode);

TEST_P(PipeliningTest, AsManyStartAsMayBeInFlightAndEachAnswerLetsOneMore) {
  auto server = ServeHeld(4);
  Client client(server->port());
  const std::string stream = Numbers(10);
  client.Send(stream);
  ASSERT_TRUE(held_.Await(4));
  ASSERT_TRUE(
      server->AwaitMetric("network_received_bytes_total", static_cast<int64_t>(stream.size())));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(started_, 4);
  std::vector<RequestPtr> requests = held_.TakeAll();
  // Finished last to first; nothing may leave before the first.
  for (size_t i = requests.size(); i-- > 1;) Echo(std::move(requests[i]));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(started_, 4);
  Echo(std::move(requests[0]));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
  ASSERT_TRUE(held_.Await(4));
  EXPECT_EQ(started_, 8);
  for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
  ASSERT_TRUE(held_.Await(2));
  for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
  for (int i = 4; i < 10; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
}

TEST_P(PipeliningTest, TheLimitChangesOnConnectionsThatAreThere) {
  auto server = ServeHeld(1);
  // Whoever runs alone does so under any limit.
  server->handler().runs_alone = [](const Request& request) { return request.frame() == "now"; };
  const auto set_limit = [&](int32_t limit) {
    ConnectionOptions options = server->server().connection_options();
    options.max_in_flight_requests_per_connection = limit;
    ASSERT_TRUE(server->server().SetConnectionOptions(options).ok());
    // A list is made in the turn that took the options, or later.
    ASSERT_EQ(server->server().ListConnections(10, 20'000).size(), 1u);
  };
  const auto answer = [&](size_t count) {
    ASSERT_TRUE(held_.Await(count));
    for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
  };
  Client client(server->port());
  client.Send(Numbers(12) + Framed("now") + Numbers(2, 12));
  ASSERT_TRUE(held_.Await(1));
  // What was started as the only one stays so.
  set_limit(5);
  EXPECT_EQ(started_, 1);
  answer(1);
  ASSERT_TRUE(held_.Await(5));
  EXPECT_EQ(started_, 6);
  set_limit(7);
  ASSERT_TRUE(held_.Await(7));
  EXPECT_EQ(started_, 8);
  set_limit(1);
  answer(7);
  for (int i = 8; i < 12; ++i) {
    ASSERT_TRUE(held_.Await(1));
    EXPECT_EQ(started_, i + 1);
    answer(1);
  }
  set_limit(5);
  std::vector<std::string> answers;
  EXPECT_TRUE(AwaitTrue([&] {
    for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
    while (client.Readable(0)) answers.push_back(client.ReadFrame());
    return answers.size() >= 15;
  }));
  ASSERT_EQ(answers.size(), 15u);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(answers[static_cast<size_t>(i)],
              i == 12 ? "now" : absl::StrCat("hold ", i < 12 ? i : i - 1));
  }
}

TEST_P(PipeliningTest, TheNextMayStartBeforeTheFirstIsAnswered) {
  auto server = ServeHeld(4);
  Client client(server->port());
  for (int i = 0; i < 4; ++i) {
    client.SendFrame(absl::StrCat("hold ", i));
    ASSERT_TRUE(held_.Await(static_cast<size_t>(i) + 1));
  }
  for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
}

TEST_P(PipeliningTest, ACloseInTheMiddleComesAfterTheAnswersBeforeIt) {
  auto server = ServeHeld(4);
  Client client(server->port());
  client.Send(Numbers(4));
  ASSERT_TRUE(held_.Await(4));
  std::vector<RequestPtr> requests = held_.TakeAll();
  Echo(std::move(requests[3]));
  requests[2].CloseConnection("asked for it");
  requests[1].ReplyNothing();
  EXPECT_FALSE(client.Readable(30));
  Echo(std::move(requests[0]));
  EXPECT_EQ(client.ReadFrame(), "hold 0");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(server->AwaitConnections(0));
}

TEST_P(PipeliningTest, WhatWasTakenBeforeALastAnswerLeftIsAnsweredAndNothingMore) {
  auto server = ServeHeld(4);
  Client client(server->port());
  client.Send(Numbers(10));
  ASSERT_TRUE(held_.Await(4));
  std::vector<RequestPtr> held = held_.TakeAll();
  held[0].ReplyThenClose(NetworkSend(Buffer::CopyOf(Framed("last"))));
  EXPECT_EQ(client.ReadFrame(), "last");
  EXPECT_FALSE(client.Readable(30));
  for (size_t i = 1; i < held.size(); ++i) Echo(std::move(held[i]));
  for (int i = 1; i < 4; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(started_, 4);
}

TEST_P(PipeliningTest, AResetWithSeveralInFlightLeavesNothing) {
  auto server = ServeHeld(5, [](SocketServerOptions& options) {
    options.processor.connection.socket_request_max_bytes = 1 << 20;
    options.queued_max_request_bytes = 2 << 20;
  });
  {
    Client client(server->port());
    client.Send(Numbers(9));
    ASSERT_TRUE(held_.Await(5));
    client.Reset();
  }
  // What had come whole is started, as acks=0 needs it; nobody is answered.
  EXPECT_TRUE(AwaitTrue([&] {
    for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
    return server->server().connection_count() == 0 &&
           server->Metric("kafka_network_socketserver_memorypoolused") == 0;
  }));
}

TEST_P(PipeliningTest, OneThatRunsAloneWaitsForThoseBeforeAndHoldsBackThoseAfter) {
  auto server = ServeHeld(8);
  server->handler().runs_alone = [](const Request& request) { return request.frame() == "now"; };
  Client client(server->port());
  client.Send(Numbers(3) + Framed("now") + Numbers(3, 3));
  ASSERT_TRUE(held_.Await(3));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(started_, 3);
  std::vector<RequestPtr> requests = held_.TakeAll();
  Echo(std::move(requests[2]));
  Echo(std::move(requests[1]));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(started_, 3);
  Echo(std::move(requests[0]));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
  EXPECT_EQ(client.ReadFrame(), "now");
  ASSERT_TRUE(held_.Await(3));
  for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
  for (int i = 3; i < 6; ++i) EXPECT_EQ(client.ReadFrame(), absl::StrCat("hold ", i));
}

TEST_P(PipeliningTest, AnswersThatAreNotReadTakeNoMoreThanTheByteBudget) {
  const std::string large = Pattern(1 << 20, 4);
  std::atomic<int> started{0};
  auto server = Serve(
      [&](RequestPtr request) {
        ++started;
        ReplyFramed(std::move(request), large);
      },
      [](SocketServerOptions& options) {
        options.sockets.send_buffer_bytes = 128 * 1024;
        ConnectionOptions& connection = options.processor.connection;
        connection.max_in_flight_requests_per_connection = 64;
        connection.max_in_flight_bytes_per_connection = 4 << 20;
      });
  Client client(server->port(), 256 * 1024);
  // What an answer takes is known from the one before.
  client.SendFrame("x");
  ASSERT_TRUE(client.ReadFrame() == large);
  std::string stream;
  for (int i = 0; i < 8; ++i) stream += Framed("x");
  client.Send(stream);
  ASSERT_TRUE(AwaitTrue([&] { return started == 5; }));
  EXPECT_TRUE(client.Readable(20'000));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(started, 5);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(client.ReadFrame() == large) << i;
}

TEST_P(PipeliningTest, LargeRequestsTakeNoMoreThanTheByteBudget) {
  auto server = ServeHeld(64, [](SocketServerOptions& options) {
    ConnectionOptions& connection = options.processor.connection;
    connection.max_in_flight_bytes_per_connection = 100'000;
    connection.receive_ahead_bytes = 1 << 20;
  });
  Client client(server->port());
  const std::string payload = Pattern(30'000, 1);
  std::string stream;
  for (int i = 0; i < 9; ++i) stream += Framed(payload);
  // One by itself may be larger than all of the budget.
  const std::string huge = Pattern(300'000, 2);
  client.SendInBackground(stream + Framed(huge) + Framed("now"));
  ASSERT_TRUE(held_.Await(4));
  EXPECT_FALSE(client.Readable(30));
  EXPECT_EQ(started_, 4);
  EXPECT_TRUE(AwaitTrue([&] {
    for (RequestPtr& request : held_.TakeAll()) ReplyFramed(std::move(request), "ok");
    return started_ == 11;
  }));
  for (RequestPtr& request : held_.TakeAll()) ReplyFramed(std::move(request), "ok");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.ReadFrame(), "ok");
  EXPECT_EQ(client.ReadFrame(), "now");
}

TEST_P(PipeliningTest, TenOfTenRequestsWithoutAnswerAreProcessedAfterAClose) {
  std::atomic<int> count{0};
  auto server = Serve(
      [&](RequestPtr request) {
        ++count;
        request.ReplyNothing();
      },
      [](SocketServerOptions& options) {
        options.processor.connection.max_in_flight_requests_per_connection = 3;
      });
  Client client(server->port());
  client.Send(Numbers(10) + Framed("cut short").substr(0, 7));
  client.Close();
  EXPECT_TRUE(AwaitTrue([&] { return count == 10; }));
  EXPECT_TRUE(server->AwaitConnections(0));
  EXPECT_EQ(count, 10);
}

}  // namespace
}  // namespace gyre::testing
