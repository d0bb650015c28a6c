// Who gets what of a shared server: lanes of the request channel, one connection's
// share of a turn, and what slow readers of large answers hold. Over real rings; no
// test here measures time.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/network_modes.h"

namespace gyre::testing {
namespace {

class FairnessTest : public NetworkModeTest {};
INSTANTIATE_TEST_SUITE_P(Modes, FairnessTest, AllNetworkModes(), NameOfMode);

// --- lanes -----------------------------------------------------------------------------

// Requests of lane 1 keep their handler until they are let go, one by one or all.
class Turnstile {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    ++arrived_;
    while (passes_ == 0) changed_.Wait(mutex_);
    --passes_;
  }
  void Let(int count) {
    MutexLock lock(mutex_);
    passes_ += count;
    changed_.NotifyAll();
  }
  int arrived() {
    MutexLock lock(mutex_);
    return arrived_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int passes_ ABSL_GUARDED_BY(mutex_) = 0;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
};

constexpr int kFloodWeight = 3;
constexpr int kManyPasses = 1'000'000;

void TwoLanesAndOneHandler(SocketServerOptions& options) {
  options.num_network_threads = 1;
  options.num_io_threads = 1;
  options.queued_max_requests = 4;
  options.lanes = {{"control", 2}, {"flood", kFloodWeight}};
}
int FloodIsLaneOne(const Request& request) { return request.frame()[0] == 'f' ? 1 : 0; }

TEST_P(FairnessTest, AFullLaneParksItsOwnConnectionsAndTheOtherPasses) {
  if (is_inline()) GTEST_SKIP() << "no queue";
  Turnstile turnstile;
  std::atomic<int> flood_at_control{-1};
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame()[0] == 'f') {
          turnstile.Pass();
        } else {
          flood_at_control = turnstile.arrived();
        }
        Echo(std::move(request));
      },
      TwoLanesAndOneHandler);
  server->handler().lane_of = FloodIsLaneOne;
  std::vector<std::unique_ptr<Client>> flood;
  for (int i = 0; i < 12; ++i) {
    flood.push_back(std::make_unique<Client>(server->port()));
    flood.back()->SendFrame(absl::StrCat("flood ", i));
    if (i == 0) ASSERT_TRUE(AwaitTrue([&] { return turnstile.arrived() == 1; }));
  }
  // One is with the handler, four are queued, the rest is parked.
  ASSERT_TRUE(server->AwaitMetric("network_requests_parked_total", 7));
  Client control(server->port());
  control.SendFrame("control");
  ASSERT_TRUE(AwaitTrue(
      [&] { return server->Metric("gyre_request_lane_queue_size", "lane=\"control\"") == 1; }));
  EXPECT_EQ(server->Metric("gyre_request_lane_queue_size", "lane=\"flood\""), 4);
  EXPECT_EQ(server->Metric("network_requests_parked_total"), 7);
  turnstile.Let(kManyPasses);
  EXPECT_EQ(control.ReadFrame(), "control");
  // The handler's turn of the flooded lane was the longest it had to wait.
  EXPECT_LE(flood_at_control, kFloodWeight);
  for (size_t i = 0; i < flood.size(); ++i) {
    EXPECT_EQ(flood[i]->ReadFrame(), absl::StrCat("flood ", i));
  }
}

TEST_P(FairnessTest, AFloodThatNeverEndsStarvesNobody) {
  if (is_inline()) GTEST_SKIP() << "no queue";
  std::atomic<bool> stop{false};
  auto server = Serve(Echo, [](SocketServerOptions& options) {
    TwoLanesAndOneHandler(options);
    options.processor.connection.max_in_flight_requests_per_connection = 5;
  });
  server->handler().lane_of = FloodIsLaneOne;
  std::vector<std::thread> flood;
  for (int c = 0; c < 3; ++c) {
    flood.emplace_back([&] {
      std::string stream;
      for (int i = 0; i < 20; ++i) stream += Framed("flood");
      Client client(server->port());
      while (!stop) {
        client.Send(stream);
        ASSERT_EQ(client.Read(stream.size()).size(), stream.size());
      }
    });
  }
  Client control(server->port());
  for (int i = 0; i < 50; ++i) {
    control.SendFrame(absl::StrCat(i));
    ASSERT_EQ(control.ReadFrame(), absl::StrCat(i));
  }
  stop = true;
  for (std::thread& thread : flood) thread.join();
}

TEST_P(FairnessTest, WeightsOfLanesChangeWhileTheServerRuns) {
  if (is_inline()) GTEST_SKIP() << "no queue";
  constexpr int kEach = 12;
  Turnstile turnstile;
  std::atomic<int> flood_started{0};
  std::atomic<int> control_started{0};
  std::atomic<int> flood_before_last_control{-1};
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() == "gate") {
          turnstile.Pass();
        } else if (request->frame()[0] == 'f') {
          ++flood_started;
        } else if (++control_started == kEach) {
          flood_before_last_control = flood_started.load();
        }
        Echo(std::move(request));
      },
      [](SocketServerOptions& options) {
        TwoLanesAndOneHandler(options);
        options.queued_max_requests = 2 * kEach;
      });
  server->handler().lane_of = FloodIsLaneOne;
  Client gate(server->port());
  gate.SendFrame("gate");
  ASSERT_TRUE(AwaitTrue([&] { return turnstile.arrived() == 1; }));
  std::vector<std::unique_ptr<Client>> clients;
  for (const char* frame : {"flood", "control"}) {
    for (int i = 0; i < kEach; ++i) {
      clients.push_back(std::make_unique<Client>(server->port()));
      clients.back()->SendFrame(frame);
    }
  }
  for (const char* lane : {"lane=\"flood\"", "lane=\"control\""}) {
    ASSERT_TRUE(
        AwaitTrue([&] { return server->Metric("gyre_request_lane_queue_size", lane) == kEach; }));
  }
  ASSERT_TRUE(server->server().SetLaneWeights({{"flood", 1}, {"control", 100}}).ok());
  // What is refused changes nothing.
  EXPECT_EQ(server->server().SetLaneWeights({{"control", 1}, {"none", 1}}).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(server->server().SetLaneWeights({{"control", 1}, {"flood", 0}}).code(),
            absl::StatusCode::kInvalidArgument);
  turnstile.Let(1);
  for (auto& client : clients) EXPECT_NE(client->ReadFrame(), "<closed>");
  // With the weights of the start all of the flood would have gone before the last of the
  // control lane; now it is at most the turn that was under way, and one of its new turns.
  EXPECT_LE(flood_before_last_control, kFloodWeight + 1);
  EXPECT_EQ(flood_started, kEach);
}

TEST_P(FairnessTest, PipelinedRequestsOfSeveralLanesStartAndLeaveInOrder) {
  Mutex mutex;
  std::vector<std::string> started;
  auto server = Serve(
      [&](RequestPtr request) {
        {
          MutexLock lock(mutex);
          started.emplace_back(request->frame());
        }
        Echo(std::move(request));
      },
      [](SocketServerOptions& options) {
        options.lanes = {{"a", 1}, {"b", 5}, {"c", 2}};
        options.queued_max_requests = 2;
        options.processor.connection.max_in_flight_requests_per_connection = 6;
      });
  // One that there is not means the first.
  server->handler().lane_of = [](const Request& request) { return (request.frame()[0] - '0') % 5; };
  Client client(server->port());
  std::string stream;
  std::vector<std::string> sent;
  for (int i = 0; i < 600; ++i) {
    sent.push_back(absl::StrCat(i * 7919 / 3 % 10, " of ", i));
    stream += Framed(sent.back());
  }
  client.SendInBackground(stream);
  for (const std::string& frame : sent) ASSERT_EQ(client.ReadFrame(), frame);
  MutexLock lock(mutex);
  EXPECT_EQ(started, sent);
}

// --- a share of each turn ------------------------------------------------------------------

TEST_P(FairnessTest, ThousandsOfSmallRequestsAtHandLetTheOthersGoFirst) {
  const int flood_count = is_inline() ? 20'000 : 2'000;
  std::atomic<int> flooded{0};
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() != "f") return Echo(std::move(request));
        ++flooded;
        request.ReplyNothing();
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.processor.connection.dispatch_quantum_bytes =
            16 * ConnectionOptions::kSmallRequestBytes;
      });
  Client other(server->port());
  Client flood(server->port());
  std::string stream;
  for (int i = 0; i < flood_count; ++i) stream += Framed("f");
  flood.SendInBackground(stream);
  int answered_meanwhile = 0;
  do {
    other.SendFrame(absl::StrCat(answered_meanwhile));
    ASSERT_EQ(other.ReadFrame(), absl::StrCat(answered_meanwhile));
    ++answered_meanwhile;
  } while (flooded < flood_count);
  // Whenever it ran, it ran for sixteen requests at most: the simulation counts them.
  if (is_inline())
    EXPECT_GE(server->Metric("network_requests_yielded_total"), flood_count / 16 / 4);
}

// The processor is kept busy until everything lies in its sockets, so that what counts is
// the order alone.
TEST_P(FairnessTest, ManyPipelinesOnAProcessorLetANewcomerGoFirst) {
  if (!is_inline()) GTEST_SKIP() << "handlers have a queue";
  constexpr int kFlooders = 40;
  constexpr int kFloodEach = 1000;
  constexpr int kMostInTurn = 64;
  for (const AcceptMode accept_mode : {AcceptMode::kAcceptor, AcceptMode::kReusePort}) {
    Turnstile turnstile;
    std::atomic<int> flooded[kFlooders] = {};
    std::atomic<int> most_before_newcomer{-1};
    auto server = Serve(
        [&](RequestPtr request) {
          const absl::string_view frame = request->frame();
          if (frame == "gate") {
            turnstile.Pass();
          } else if (frame[0] == 'f') {
            int flooder = 0;
            ASSERT_TRUE(absl::SimpleAtoi(frame.substr(1), &flooder));
            ++flooded[flooder];
          } else if (frame == "newcomer") {
            most_before_newcomer = std::max_element(std::begin(flooded), std::end(flooded))->load();
          }
          Echo(std::move(request));
        },
        [&](SocketServerOptions& options) {
          options.num_network_threads = 1;
          options.accept_mode = accept_mode;
          options.processor.connection.max_in_flight_requests_per_connection = kFloodEach;
        });
    std::vector<std::unique_ptr<Client>> flooders;
    const auto greet = [&](Client& client) {
      client.SendFrame("hello");
      ASSERT_EQ(client.ReadFrame(), "hello");
    };
    for (int i = 0; i < kFlooders; ++i) {
      flooders.push_back(std::make_unique<Client>(server->port()));
      greet(*flooders.back());
    }
    Client known(server->port());
    greet(known);
    Client gate(server->port());
    gate.SendFrame("gate");
    ASSERT_TRUE(AwaitTrue([&] { return turnstile.arrived() == 1; }));
    for (int i = 0; i < kFlooders; ++i) {
      std::string stream;
      for (int k = 0; k < kFloodEach; ++k) stream += Framed(absl::StrCat("f", i));
      flooders[static_cast<size_t>(i)]->Send(stream);
    }
    // Where the processor accepts, it may be one whose connection is not known yet.
    std::unique_ptr<Client> newcomer;
    if (accept_mode == AcceptMode::kReusePort) newcomer = std::make_unique<Client>(server->port());
    Client& late = newcomer != nullptr ? *newcomer : known;
    late.SendFrame("newcomer");
    turnstile.Let(1);
    EXPECT_EQ(late.ReadFrame(), "newcomer");
    // To be accepted takes turns, too.
    EXPECT_LE(most_before_newcomer, kMostInTurn * (newcomer != nullptr ? 6 : 2));
    for (int i = 0; i < kFlooders; ++i) {
      const std::string answer = Framed(absl::StrCat("f", i));
      ASSERT_EQ(flooders[static_cast<size_t>(i)]->Read(answer.size() * kFloodEach).size(),
                answer.size() * kFloodEach);
    }
  }
}

TEST_P(FairnessTest, OfABurstOfConnectionsAFewAreTakenInATurn) {
  if (!is_inline()) GTEST_SKIP() << "who is told of a turn runs in it";
  constexpr int kBurst = 100;
  Turnstile turnstile;
  std::atomic<int64_t> there{-1};
  TestServer* told = nullptr;
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() == "gate") turnstile.Pass();
        if (request->frame() == "known") there = told->Metric("network_connections");
        Echo(std::move(request));
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.sockets.listen_backlog_size = 256;
      });
  told = server.get();
  Client gate(server->port()), known(server->port());
  for (Client* client : {&gate, &known}) {
    client->SendFrame("hello");
    ASSERT_EQ(client->ReadFrame(), "hello");
  }
  gate.SendFrame("gate");
  ASSERT_TRUE(AwaitTrue([&] { return turnstile.arrived() == 1; }));
  // They are handed over while the processor stands still, and so is the request.
  std::vector<Client> burst;
  for (int i = 0; i < kBurst; ++i) burst.emplace_back(server->port());
  ASSERT_TRUE(server->AwaitConnections(2 + kBurst));
  known.SendFrame("known");
  turnstile.Let(1);
  EXPECT_EQ(known.ReadFrame(), "known");
  // Twenty in the rest of the turn that stood still, and perhaps in one more.
  EXPECT_LE(there, 2 + 2 * 20);
  for (Client& client : burst) {
    client.SendFrame("a");
    ASSERT_EQ(client.ReadFrame(), "a");
  }
}

// --- slow readers of large answers ---------------------------------------------------------

TEST_P(FairnessTest, SlowReadersOfFilesHoldReferencesAndNotMemory) {
  constexpr int kReaders = 12;
  constexpr size_t kFileBytes = 4 << 20;
  const std::string content = Pattern(kFileBytes, 3);
  TempFile file(content);
  auto server = Serve(
      [&](RequestPtr request) {
        if (request->frame() != "file") return Echo(std::move(request));
        NetworkSend send(Buffer::CopyOf(Framed(content).substr(0, 4)));
        send.Append(FileSlice{file.file(), 0, static_cast<int64_t>(kFileBytes)});
        request.Reply(std::move(send));
      },
      [](SocketServerOptions& options) {
        options.num_network_threads = 1;
        options.sockets.send_buffer_bytes = 16 * 1024;
      });
  const int64_t references = file.file()->reference_count();
  std::vector<std::unique_ptr<Client>> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<Client>(server->port(), 256 * 1024));
    readers.back()->SendFrame("file");
    ASSERT_EQ(readers.back()->Read(4).size(), 4u);
  }
  Client quick(server->port());
  for (int i = 0; i < 50; ++i) {
    quick.SendFrame("quick");
    ASSERT_EQ(quick.ReadFrame(), "quick");
  }
  // 48 MiB of answers are under way. What was read into memory of them is at most one
  // chunk for each reader.
  EXPECT_LE(server->Metric("network_file_copied_bytes_total"), kReaders * 64 * 1024);
  EXPECT_EQ(file.file()->reference_count(), references + kReaders);
  EXPECT_TRUE(readers.back()->Read(kFileBytes) == content);
  for (auto& reader : readers) reader->Reset();
  EXPECT_TRUE(server->AwaitConnections(1));
  EXPECT_TRUE(AwaitTrue([&] { return file.file()->reference_count() == references; }));
}

}  // namespace
}  // namespace gyre::testing
