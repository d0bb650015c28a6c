// Memory budgets over real rings: who waits, who is served meanwhile, and who is closed
// when memory is short.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/endian.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

constexpr char kUsed[] = "kafka_network_socketserver_memorypoolused";
constexpr char kWaits[] = "network_memory_waits_total";
constexpr char kBroken[] = "network_partial_requests_broken_total";
constexpr char kShed[] = "network_responses_shed_total";
constexpr char kStalled[] = "network_responses_stalled_total";
constexpr char kHeld[] = "network_response_memory_bytes";
constexpr int64_t kBudget = 4 << 20;

// "try N": so many bytes, or "busy" when there is no room for them.
void AnswerIfItFits(RequestPtr request, BufferAllocator& buffers) {
  uint32_t size_bytes = 0;
  if (!absl::SimpleAtoi(absl::StripPrefix(request->frame(), "try "), &size_bytes)) {
    return Echo(std::move(request));
  }
  std::optional<Buffer> answer = buffers.TryAllocate(size_bytes + 4);
  if (!answer.has_value()) return ReplyFramed(std::move(request), "busy");
  StoreBigEndian<int32_t>(answer->data(), static_cast<int32_t>(size_bytes));
  std::fill_n(answer->data() + 4, size_bytes, 'T');
  request.Reply(NetworkSend(*std::move(answer)));
}

// "answer N": so many bytes; else an echo.
void Answer(RequestPtr request) {
  uint32_t size_bytes = 0;
  const absl::string_view frame = request->frame();
  if (absl::StartsWith(frame, "answer ") && absl::SimpleAtoi(frame.substr(7), &size_bytes)) {
    return ReplyFramed(std::move(request), std::string(size_bytes, 'A'));
  }
  Echo(std::move(request));
}

class MemoryContractTest : public ::testing::Test {
 protected:
  // One processor with so much for answers; sockets that hold little of them.
  std::unique_ptr<TestServer> ServeAnswers(int64_t stall_ms) {
    return std::make_unique<TestServer>("", Answer, [stall_ms](SocketServerOptions& options) {
      options.num_network_threads = 1;
      options.sockets.send_buffer_bytes = 64 * 1024;
      options.processor.connection.response_budget_bytes = kBudget;
      options.processor.response_stall_ms = stall_ms;
    });
  }
  // One processor with 2 MiB for requests of up to 1 MiB.
  std::unique_ptr<TestServer> ServeRequests() {
    return std::make_unique<TestServer>("", Answer, [](SocketServerOptions& options) {
      options.num_network_threads = 1;
      options.processor.connection.socket_request_max_bytes = 1 << 20;
      options.queued_max_request_bytes = 2 << 20;
    });
  }
  static void ExpectEcho(Client& client, const std::string& payload) {
    client.SendFrame(payload);
    EXPECT_TRUE(client.ReadFrame() == payload) << payload.size();
  }
  static void ExpectAnswer(Client& client, size_t size_bytes) {
    client.SendFrame(absl::StrCat("answer ", size_bytes));
    EXPECT_TRUE(client.ReadFrame() == std::string(size_bytes, 'A')) << size_bytes;
  }
  // One that does not read what it asks for.
  std::unique_ptr<Client> AskAndNotRead(const TestServer& server, size_t size_bytes) {
    auto client = std::make_unique<Client>(server.port(), kSmallWindowBytes);
    client->SendFrame(absl::StrCat("answer ", size_bytes));
    EXPECT_TRUE(client->Readable(20'000));
    return client;
  }
  // So many that sent so much of the frame, and no more.
  static std::vector<std::unique_ptr<Client>> Partials(const TestServer& server,
                                                       absl::string_view frame, int count,
                                                       size_t sent_bytes) {
    std::vector<std::unique_ptr<Client>> partials;
    for (int i = 0; i < count; ++i) {
      partials.push_back(std::make_unique<Client>(server.port()));
      partials.back()->Send(frame.substr(0, sent_bytes));
    }
    return partials;
  }
  // Of a request that the sockets alone would not hold.
  static void ExpectLargeEcho(const TestServer& server) {
    Client large(server.port());
    const std::string payload = Pattern(1'000'000, 2);
    large.SendInBackground(Framed(payload));
    EXPECT_TRUE(large.ReadFrame() == payload);
  }
};

TEST_F(MemoryContractTest, ARequestWaitsForAnswerMemoryAndIsThenServed) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  Client next(server->port());
  ExpectAnswer(next, 3'000'000);
  const auto slow = AskAndNotRead(*server, 3'000'000);
  next.SendFrame("answer 3000000");
  ASSERT_TRUE(server->AwaitMetric(kWaits, 1));
  EXPECT_FALSE(next.Readable(50));
  EXPECT_EQ(slow->ReadFrame().size(), 3'000'000u);
  EXPECT_EQ(next.ReadFrame().size(), 3'000'000u);
  EXPECT_EQ(server->Metric(kShed), 0);
  EXPECT_EQ(server->Metric(kStalled), 0);
  EXPECT_TRUE(AwaitTrue([&] { return server->Metric(kHeld) == 0; }));
}

TEST_F(MemoryContractTest, SmallAnswersGoOnWhileLargeOnesWait) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  Client next(server->port());
  ExpectAnswer(next, 3'000'000);
  const auto slow = AskAndNotRead(*server, 3'000'000);
  next.SendFrame("answer 3000000");
  ASSERT_TRUE(server->AwaitMetric(kWaits, 1));
  // Those of new connections, too.
  Client small(server->port());
  for (int i = 0; i < 50; ++i) ExpectEcho(small, absl::StrCat("small ", i));
  EXPECT_FALSE(next.Readable(0));
  EXPECT_EQ(slow->ReadFrame().size(), 3'000'000u);
  EXPECT_EQ(next.ReadFrame().size(), 3'000'000u);
}

TEST_F(MemoryContractTest, WhatAnswersTakeBeyondTheirShareSlowReadersPayAndNotNewcomers) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  // Not known to be answered at length, so nobody makes them wait.
  std::vector<std::unique_ptr<Client>> readers;
  for (int i = 0; i < 12; ++i) {
    readers.push_back(AskAndNotRead(*server, 1'000'000));
    // What was closed for is gone within a turn or two; until then one answer is too many.
    EXPECT_LE(server->Metric(kHeld), kBudget + 1'000'004 + 64 * 1024);
  }
  EXPECT_TRUE(AwaitTrue([&] { return server->Metric(kHeld) <= kBudget; }));
  EXPECT_GE(server->Metric(kShed), 8);
  // The last of them is served, the first is not.
  EXPECT_EQ(readers.back()->ReadFrame().size(), 1'000'000u);
  EXPECT_EQ(readers.front()->ReadFrame(), "<closed>");
  readers.clear();
  EXPECT_TRUE(AwaitTrue([&] { return server->Metric(kHeld) == 0; }));
}

TEST_F(MemoryContractTest, AnAnswerLargerThanTheShareCanBeHad) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  Client client(server->port());
  ExpectAnswer(client, 3 * kBudget);
  EXPECT_EQ(server->Metric(kShed), 0);
}

TEST_F(MemoryContractTest, AnAnswerLargerThanTheShareCanBeHadBesideSmallOnes) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  Client large(server->port(), kSmallWindowBytes);
  large.SendFrame(absl::StrCat("answer ", 3 * kBudget));
  Client small(server->port());
  constexpr size_t kPart = 64 * 1024;
  for (int64_t rest = 3 * kBudget + 4; rest > 0; rest -= kPart) {
    const size_t part = std::min<size_t>(kPart, static_cast<size_t>(rest));
    ASSERT_EQ(large.Read(part).size(), part) << rest << " bytes before the end";
    ExpectEcho(small, absl::StrCat("small ", rest));
  }
  EXPECT_EQ(server->Metric(kShed), 0);
}

TEST_F(MemoryContractTest, WhoHoldsNextToNothingDoesNotPayForALargeAnswerThatNobodyReads) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  Client small(server->port());
  ExpectEcho(small, "small");
  const auto slow = AskAndNotRead(*server, 3 * kBudget);
  // Before it has been behind for long, and after.
  for (int i = 0; i < 60; ++i) {
    ExpectEcho(small, absl::StrCat("small ", i));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_F(MemoryContractTest, AReaderThatDripsIsClosedWhileOthersWait) {
  const auto server = ServeAnswers(/*stall_ms=*/300);
  Client next(server->port());
  ExpectAnswer(next, 3'000'000);
  const auto slow = AskAndNotRead(*server, 3'000'000);
  std::atomic<bool> stop{false};
  std::thread drip([&] {
    while (!stop.load()) {
      if (slow->Readable(10)) slow->Read(200);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  ExpectAnswer(next, 3'000'000);
  stop.store(true);
  drip.join();
  EXPECT_EQ(server->Metric(kStalled), 1);
}

TEST_F(MemoryContractTest, WhoWaitsForAnswerMemoryIsNotOvertakenByOneThatAsksOnAndOn) {
  const auto server = ServeAnswers(/*stall_ms=*/60'000);
  constexpr int kRequests = 60;
  Client greedy(server->port());
  ExpectAnswer(greedy, 3'000'000);
  Client patient(server->port());
  ExpectAnswer(patient, 3'000'000);
  std::string requests;
  for (int i = 0; i < kRequests; ++i) requests += Framed("answer 3000000");
  greedy.Send(requests);
  std::atomic<int> answered{0};
  std::thread reader([&] {
    while (answered < kRequests && greedy.ReadFrame().size() == 3'000'000) ++answered;
  });
  ASSERT_TRUE(AwaitTrue([&] { return answered > 0; }));
  patient.SendFrame("answer 3000000");
  EXPECT_EQ(patient.ReadFrame().size(), 3'000'000u);
  EXPECT_LT(answered, kRequests / 2);
  reader.join();
  EXPECT_EQ(answered, kRequests);
}

TEST_F(MemoryContractTest, WhatAThrottledConnectionWaitedForIsAnothers) {
  Held held;
  TestServer server(
      "", [&](RequestPtr request) { held.Add(std::move(request)); },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.processor.connection.max_in_flight_requests_per_connection = 2;
        options.processor.connection.socket_request_max_bytes = 256'000;
        options.queued_max_request_bytes = 340'000;
      });
  const auto next = [&held] { return held.Await(1) ? std::move(held.TakeAll()[0]) : RequestPtr(); };
  const std::string payload = Pattern(200'000, 1);
  Client holds(server.port());
  holds.SendInBackground(Framed(payload));
  RequestPtr first = next();
  ASSERT_TRUE(first);
  Client throttled(server.port());
  throttled.SendFrame("small");
  RequestPtr small = next();
  ASSERT_TRUE(small);
  throttled.SendInBackground(Framed(payload));
  ASSERT_TRUE(server.AwaitMetric(kWaits, 1));
  ThrottleToken token = small->StartThrottling(1);
  Echo(std::move(small));
  EXPECT_EQ(throttled.ReadFrame(), "small");
  Echo(std::move(first));
  EXPECT_TRUE(holds.ReadFrame() == payload);
  // It takes no request now, so it must not keep what it was waiting for.
  Client other(server.port());
  other.SendInBackground(Framed(payload));
  RequestPtr others = next();
  ASSERT_TRUE(others);
  EXPECT_TRUE(others->frame() == payload);
  Echo(std::move(others));
  EXPECT_TRUE(other.ReadFrame() == payload);
  token.End();
  RequestPtr last = next();
  ASSERT_TRUE(last);
  Echo(std::move(last));
  EXPECT_TRUE(throttled.ReadFrame() == payload);
}

TEST_F(MemoryContractTest, ARequestLimitThatCouldNeverBeReachedIsRefused) {
  const auto server = ServeRequests();
  ConnectionOptions options = server->server().connection_options();
  options.socket_request_max_bytes = 1'900'000;
  const absl::Status refused = server->server().SetConnectionOptions(options);
  EXPECT_TRUE(absl::StrContains(refused.message(), absl::StrCat((2 << 20) / 8 * 7 - 4))) << refused;
  options.socket_request_max_bytes = 1'800'000;
  EXPECT_TRUE(server->server().SetConnectionOptions(options).ok());
  Client client(server->port());
  ExpectEcho(client, Pattern(1'800'000, 1));
}

TEST_F(MemoryContractTest, WholeRequestsAreServedWhilePartialOnesFillTheBudget) {
  const auto server = ServeRequests();
  const std::string frame = Framed(Pattern(1 << 20, 1));
  const auto partials = Partials(*server, frame, 4, 500'000);
  ASSERT_TRUE(server->AwaitMetric(kWaits, 1));
  EXPECT_LE(server->Metric(kUsed), (2 << 20) / 8 * 7);
  Client small(server->port());
  for (size_t i = 0; i < 50; ++i) ExpectEcho(small, Pattern(i * 100, 1));
  // One in two pieces that fits what may be received ahead is as good as whole.
  const std::string split = Framed(Pattern(30'000, 2));
  small.Send(absl::string_view(split).substr(0, 10'000));
  EXPECT_FALSE(small.Readable(20));
  small.Send(absl::string_view(split).substr(10'000));
  EXPECT_TRUE(small.ReadFrame() == Pattern(30'000, 2));
}

TEST_F(MemoryContractTest, ManyThatDoNotSendAreClosedAndALargeRequestGetsThrough) {
  const auto server = ServeRequests();
  const std::string frame = Framed(Pattern(1 << 20, 1));
  auto partials = Partials(*server, frame, 30, 80'000);
  ASSERT_TRUE(server->AwaitMetric(kWaits, 1));
  ExpectLargeEcho(*server);
  // It waited for more than one of them, and they were closed together.
  EXPECT_GE(server->Metric(kBroken), 4);
  partials.clear();
  EXPECT_TRUE(AwaitTrue([&] { return server->Metric(kUsed) == 0; }));
}

TEST_F(MemoryContractTest, OneThatTricklesHoldsNobodyUp) {
  const auto server = ServeRequests();
  const std::string frame = Framed(Pattern(1 << 20, 1));
  auto partials = Partials(*server, frame, 4, 450'000);
  std::atomic<bool> stop{false};
  std::thread trickle([&] {
    for (size_t at = 450'000; !stop.load(); ++at) {
      for (auto& client : partials) client->Send(absl::string_view(frame).substr(at, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  ExpectLargeEcho(*server);
  stop.store(true);
  trickle.join();
  EXPECT_GE(server->Metric(kBroken), 1);
}

// On handlers and inline.
class TriedAnswersTest : public MemoryContractTest, public ::testing::WithParamInterface<Dispatch> {
 protected:
  std::unique_ptr<TestServer> Serve(int64_t stall_ms) {
    auto server = std::make_unique<TestServer>(
        "", [this](RequestPtr request) { AnswerIfItFits(std::move(request), *buffers_.load()); },
        [stall_ms](SocketServerOptions& options) {
          // More processors than one: the limit is that of all.
          options.num_network_threads = 2;
          options.sockets.send_buffer_bytes = 64 * 1024;
          options.processor.connection.response_budget_bytes = 2 * kBudget;
          options.processor.response_budget_processors = 2;
          options.processor.connection.dispatch = GetParam();
          options.processor.response_stall_ms = stall_ms;
        });
    buffers_ = &server->server().response_buffers();
    return server;
  }
  static std::string Try(Client& client, size_t size_bytes) {
    client.SendFrame(absl::StrCat("try ", size_bytes));
    return client.ReadFrame();
  }

 private:
  std::atomic<BufferAllocator*> buffers_{&BufferAllocator::Heap()};
};
INSTANTIATE_TEST_SUITE_P(Dispatch, TriedAnswersTest,
                         ::testing::Values(Dispatch::kPool, Dispatch::kInline));

TEST_P(TriedAnswersTest, AHandlerIsToldThatAnAnswerDoesNotFitAndAllIsGivenBack) {
  const auto server = Serve(/*stall_ms=*/60'000);
  std::vector<std::unique_ptr<Client>> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(std::make_unique<Client>(server->port(), kSmallWindowBytes));
    readers.back()->SendFrame("try 3500000");
    EXPECT_TRUE(readers.back()->Readable(20'000));
  }
  Client next(server->port());
  EXPECT_EQ(Try(next, 3'500'000), "busy");
  EXPECT_EQ(Try(next, 1'000), std::string(1'000, 'T'));
  EXPECT_EQ(Try(next, 20'000'000), "busy");
  for (const auto& reader : readers) EXPECT_EQ(reader->ReadFrame().size(), 3'500'000u);
  EXPECT_TRUE(AwaitTrue([&] { return server->Metric(kHeld) == 0; }));
  EXPECT_EQ(Try(next, 3'500'000).size(), 3'500'000u);
  EXPECT_EQ(server->Metric(kShed) + server->Metric(kStalled), 0);
}

TEST_P(TriedAnswersTest, ARefusalHasReadersClosedThatTakeNothing) {
  const auto server = Serve(/*stall_ms=*/100);
  std::vector<std::unique_ptr<Client>> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(std::make_unique<Client>(server->port(), kSmallWindowBytes));
    readers.back()->SendFrame("try 3500000");
    EXPECT_TRUE(readers.back()->Readable(20'000));
  }
  // Of a connection that has had small answers only, so that nothing makes it wait.
  Client next(server->port());
  EXPECT_TRUE(AwaitTrue([&] { return Try(next, 3'500'000).size() == 3'500'000u; }));
  EXPECT_GE(server->Metric(kStalled), 1);
}

}  // namespace
}  // namespace gyre::testing
