// After a warm-up no I/O thread (processors, acceptors) allocates, whatever ordinary
// clients do. What may: starting, resizing, taking over, lists of connections and other
// orders from outside, log lines, and growing with the most there ever was at once of
// connections, requests and waiters (the warm-up has more of each than what is counted).
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/endian.h"
#include "engine/concurrent/mutex.h"
#include "gtest/gtest.h"
#include "tests/integration/counting_allocator.h"
#include "tests/integration/network_harness.h"

namespace gyre {
namespace {

using testing::AllocationCount;
using testing::Client;
using testing::Framed;
using testing::Pattern;
using testing::TempFile;
using testing::TestServer;

constexpr size_t kHalfAnswerBytes = 200'000;
constexpr size_t kFileBytes = 300'000;
constexpr size_t kSmallSliceBytes = 3'000;
// Above kSlabMaxBytes: it gets a range of its own.
constexpr size_t kLargeFrameBytes = 600'000;

// What a request's first byte asks for.
enum Command : char {
  kEcho = 'e',
  kLargeAnswer = 'l',
  kFile = 'f',
  kSmallSlice = 's',
  kThrottle = 't',
  kCloseAfter = 'c',
  kCloseNow = 'x',
  kNoAnswer = 'n',
  kLargeFrame = 'b',
  kHold = 'w',      // until AnswerHeld
  kAllocate = 'a',  // the handler allocates
};

std::string Request(Command command, size_t bytes = 16) {
  std::string request = Pattern(bytes, 1);
  request[0] = command;
  return Framed(request);
}

// Answers out of slab memory alone: inline it runs on a processor.
class Handler {
 public:
  Handler() { held_.reserve(64); }
  void Serve(SocketServer& server) { memory_ = &server.response_buffers(); }

  bool AwaitHeld(size_t count) {
    return testing::AwaitTrue([this, count] {
      MutexLock lock(mutex_);
      return held_.size() == count;
    });
  }
  void AnswerHeld() {
    MutexLock lock(mutex_);
    for (RequestPtr& request : held_) request.Reply(NetworkSend(Prefixed(1, 0)));
    held_.clear();
  }

  void operator()(gyre::RequestPtr request) {
    switch (request->frame()[0]) {
      case kLargeAnswer: {
        NetworkSend send(Prefixed(kHalfAnswerBytes, kHalfAnswerBytes));
        Buffer rest = memory_->Allocate(kHalfAnswerBytes);
        std::memset(rest.data(), 'r', rest.size_bytes());
        send.Append(std::move(rest));
        return request.Reply(std::move(send));
      }
      case kFile:
        return ReplySlice(std::move(request), kFileBytes);
      case kSmallSlice:
        return ReplySlice(std::move(request), kSmallSliceBytes);
      case kThrottle:
        request->Throttle(1'000'000);
        return Echo(std::move(request));
      case kCloseAfter:
        return request.ReplyThenClose(NetworkSend(Prefixed(1, 0)));
      case kCloseNow:
        return request.CloseConnection(nullptr);
      case kNoAnswer:
        return request.ReplyNothing();
      case kAllocate:
        delete new volatile char[request->frame().size()];
        return Echo(std::move(request));
      case kHold: {
        MutexLock lock(mutex_);
        held_.push_back(std::move(request));
        return;
      }
      case kLargeFrame:
        return request.Reply(NetworkSend(Prefixed(1, 0)));
      default:
        return Echo(std::move(request));
    }
  }

  TempFile file{Pattern(kFileBytes, 7)};

 private:
  // `bytes` behind the length of an answer that has `more` bytes behind them.
  Buffer Prefixed(size_t bytes, size_t more) const {
    Buffer buffer = memory_->Allocate(static_cast<uint32_t>(sizeof(int32_t) + bytes));
    StoreBigEndian<int32_t>(buffer.data(), static_cast<int32_t>(bytes + more));
    std::memset(buffer.data() + sizeof(int32_t), 'h', bytes);
    return buffer;
  }
  void Echo(gyre::RequestPtr request) const {
    const absl::string_view frame = request->frame();
    Buffer answer = Prefixed(frame.size(), 0);
    std::memcpy(answer.data() + sizeof(int32_t), frame.data(), frame.size());
    request.Reply(NetworkSend(std::move(answer)));
  }
  void ReplySlice(gyre::RequestPtr request, size_t bytes) const {
    NetworkSend send(Prefixed(8, bytes));
    send.Append(FileSlice{file.file(), 0, static_cast<int64_t>(bytes)});
    request.Reply(std::move(send));
  }

  BufferAllocator* memory_ = nullptr;
  Mutex mutex_;
  std::vector<gyre::RequestPtr> held_ ABSL_GUARDED_BY(mutex_);
};

struct Mode {
  const char* name;
  AcceptMode accept;
  Dispatch dispatch;
  int32_t in_flight;
};

class AllocationTest : public ::testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    if (!testing::CountsAllocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  }
  void Start(const std::function<void(SocketServerOptions&)>& change = {}) {
    server_ = std::make_unique<TestServer>(
        "", [this](gyre::RequestPtr request) { handler_(std::move(request)); },
        [&](SocketServerOptions& options) {
          options.accept_mode = GetParam().accept;
          options.processor.connection.dispatch = GetParam().dispatch;
          options.processor.connection.max_in_flight_requests_per_connection = GetParam().in_flight;
          options.slab_bytes = 64 << 20;
          options.sockets.listen_backlog_size = 1024;
          if (change) change(options);
        });
    handler_.Serve(server_->server());
  }

  Client Connect(int window_bytes = 0) { return Client(server_->port(), window_bytes); }
  int64_t MemoryWaits() const { return server_->Metric("network_memory_waits_total"); }
  // The answer's size.
  static size_t Ask(Client& client, const std::string& request) {
    client.Send(request);
    return client.ReadFrame().size();
  }
  static void Echo(Client& client, size_t bytes) {
    ASSERT_EQ(Ask(client, Request(kEcho, bytes)), bytes);
  }

  // A connection of each kind of end, one after the other.
  void ComeAndGo(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Client client = Connect();
      switch (i % 8) {
        case 0:
          Echo(client, 100);
          client.Close();
          break;
        case 1:
          Echo(client, 100);
          client.Reset();
          break;
        case 2:
          client.Send(Request(kEcho));
          client.FinishSending();
          ASSERT_EQ(client.ReadFrame().size(), 16u);
          ASSERT_TRUE(client.AtEnd());
          break;
        case 3:
          ASSERT_EQ(Ask(client, Request(kCloseAfter)), 1u);
          ASSERT_TRUE(client.AtEnd());
          break;
        case 4:
          client.Send(Request(kCloseNow));
          ASSERT_TRUE(client.AtEnd());
          break;
        case 5:  // in the middle of a frame
          client.Send(Request(kEcho, 1000).substr(0, 500));
          client.Close();
          break;
        case 6:  // with an answer that nobody reads
          client.Send(Request(kLargeAnswer));
          client.Reset();
          break;
        case 7:
          break;
      }
    }
  }
  void Exchange(Client& client, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Echo(client, 128);
      if (i % 16 != 0) continue;
      client.Send(Request(kNoAnswer));
      // In pieces, and over several receive buffers.
      const std::string request = Request(kEcho, 300);
      for (size_t at = 0; at < request.size(); at += 100) client.Send(request.substr(at, 100));
      ASSERT_EQ(client.ReadFrame().size(), 300u);
      Echo(client, 100'000);
      ASSERT_EQ(Ask(client, Request(kLargeAnswer)), 2 * kHalfAnswerBytes);
      ASSERT_EQ(Ask(client, Request(kThrottle)), 16u);
      ASSERT_EQ(Ask(client, Request(kSmallSlice)), 8 + kSmallSliceBytes);
      ASSERT_EQ(Ask(client, Request(kFile)), 8 + kFileBytes);
      handler_.file.MakeCold();
      ASSERT_EQ(Ask(client, Request(kFile)), 8 + kFileBytes);
      handler_.file.MakeCold();
      ASSERT_EQ(Ask(client, Request(kSmallSlice)), 8 + kSmallSliceBytes);
    }
  }
  void SendLargeFrames(Client& client, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      client.SendInBackground(Request(kLargeFrame, kLargeFrameBytes));
      ASSERT_EQ(client.ReadFrame().size(), 1u);
    }
  }
  // Many requests at once, small and not so small, so that they wait as received.
  void Pipeline(Client& client, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      std::string requests;
      for (int j = 0; j < 20; ++j) requests += Request(kEcho, j % 2 == 0 ? 16 : 6'000);
      client.SendInBackground(requests);
      for (int j = 0; j < 20; ++j) ASSERT_FALSE(client.ReadFrame() == "<closed>");
    }
  }
  void ReadSlowly(Client& client) {
    for (int i = 0; i < 4; ++i) client.Send(Request(i % 2 == 0 ? kLargeAnswer : kFile));
    for (int i = 0; i < 4; ++i) ASSERT_FALSE(client.ReadFrame() == "<closed>");
  }

  void Everything(int rounds) {
    ComeAndGo(8 * rounds);
    Client client = Connect();
    Exchange(client, 16 * rounds);
    SendLargeFrames(client, rounds / 4);
    Pipeline(client, rounds);
    Client slow = Connect(testing::kSmallWindowBytes);
    ReadSlowly(slow);
  }
  // More of everything at once than Everything has.
  void WarmUp() {
    std::vector<Client> clients;
    for (int i = 0; i < 100; ++i) clients.push_back(Connect());
    for (const Command command : {kEcho, kThrottle, kLargeAnswer, kFile, kSmallSlice}) {
      if (command == kFile || command == kSmallSlice) handler_.file.MakeCold();
      for (Client& client : clients) {
        for (int j = 0; j < 3; ++j) client.Send(Request(command));
      }
      for (Client& client : clients) {
        for (int j = 0; j < 3; ++j) ASSERT_FALSE(client.ReadFrame() == "<closed>");
      }
    }
    for (int i = 0; i < 8; ++i) {
      clients[i].SendInBackground(Request(kLargeFrame, kLargeFrameBytes));
    }
    for (int i = 0; i < 8; ++i) ASSERT_EQ(clients[i].ReadFrame().size(), 1u);
    clients.clear();
    Everything(8);
    // The last of them is gone: what it held is there for the next.
    ASSERT_TRUE(server_->AwaitConnections(0));
  }

  Handler handler_;
  std::unique_ptr<TestServer> server_;
};

TEST_P(AllocationTest, NothingIsAllocatedOnIoThreadsAfterTheWarmUp) {
  Start();
  WarmUp();
  if (HasFatalFailure()) return;
  AllocationCount allocations;
  Everything(40);
  ASSERT_TRUE(server_->AwaitConnections(0));
  EXPECT_EQ(allocations.Stop(), 0) << AllocationCount::FirstOnes();
}

TEST_P(AllocationTest, WaitingForMemoryAllocatesNothing) {
  constexpr size_t kFrameBytes = 200'000;
  Start([](SocketServerOptions& options) {
    options.processor.connection.socket_request_max_bytes = 500'000;
    options.queued_max_request_bytes = 1'000'000;
  });
  // The first ones hold nearly all there is until the others have to wait.
  const auto wait = [this](size_t holders, size_t waiters) {
    std::vector<Client> clients;
    for (size_t i = 0; i < holders + waiters; ++i) clients.push_back(Connect());
    for (size_t i = 0; i < holders; ++i) clients[i].Send(Request(kHold, kFrameBytes));
    ASSERT_TRUE(handler_.AwaitHeld(holders));
    const int64_t waits = MemoryWaits();
    for (size_t i = holders; i < clients.size(); ++i) {
      clients[i].SendInBackground(Request(kLargeFrame, kFrameBytes));
    }
    ASSERT_TRUE(testing::AwaitTrue([&] { return MemoryWaits() > waits; }));
    handler_.AnswerHeld();
    for (Client& client : clients) ASSERT_EQ(client.ReadFrame().size(), 1u);
  };
  for (int i = 0; i < 4 && !HasFatalFailure(); ++i) wait(4, 4);
  ASSERT_TRUE(server_->AwaitConnections(0));
  if (HasFatalFailure()) return;
  AllocationCount allocations;
  for (int i = 0; i < 8 && !HasFatalFailure(); ++i) wait(4, 3);
  ASSERT_TRUE(server_->AwaitConnections(0));
  EXPECT_EQ(allocations.Stop(), 0) << AllocationCount::FirstOnes();
}

TEST_P(AllocationTest, ExpiringAllocatesNothing) {
  Start([](SocketServerOptions& options) {
    options.processor.connection.connections_max_idle_ms = 20;
  });
  const auto expire = [this](int count) {
    std::vector<Client> clients;
    for (int i = 0; i < count; ++i) clients.push_back(Connect());
    for (Client& client : clients) ASSERT_TRUE(client.AtEnd());
  };
  for (int i = 0; i < 3; ++i) expire(40);
  if (HasFatalFailure()) return;
  AllocationCount allocations;
  for (int i = 0; i < 5; ++i) expire(20);
  ASSERT_TRUE(server_->AwaitConnections(0));
  EXPECT_EQ(allocations.Stop(), 0) << AllocationCount::FirstOnes();
}

INSTANTIATE_TEST_SUITE_P(
    Modes, AllocationTest,
    ::testing::Values(Mode{"AcceptorPool", AcceptMode::kAcceptor, Dispatch::kPool, 5},
                      Mode{"AcceptorInline", AcceptMode::kAcceptor, Dispatch::kInline, 1},
                      Mode{"ReusePortPool", AcceptMode::kReusePort, Dispatch::kPool, 1},
                      Mode{"ReusePortInline", AcceptMode::kReusePort, Dispatch::kInline, 5}),
    [](const auto& info) { return std::string(info.param.name); });

// Where one mode is enough.
class OneModeAllocationTest : public AllocationTest {};

TEST_P(OneModeAllocationTest, HoldingSocketsThatCameTooFastAllocatesNothing) {
  Start([](SocketServerOptions& options) {
    options.num_network_threads = 1;
    options.max_connection_creation_rate_per_ip = 1;
    options.quota_window_num = 2;
  });
  const auto flood = [this](int count) {
    const auto throttled = [this] {
      return server_->Metric("network_connections_throttled_per_ip_total");
    };
    const int64_t before = throttled();
    std::vector<Client> clients;
    for (int i = 0; i < count; ++i) clients.push_back(Connect());
    ASSERT_TRUE(testing::AwaitTrue([&] { return throttled() > before; }));
    for (Client& client : clients) client.FinishSending();
    for (Client& client : clients) ASSERT_TRUE(client.AtEnd());
  };
  flood(40);
  if (HasFatalFailure()) return;
  AllocationCount allocations;
  flood(20);
  ASSERT_TRUE(server_->AwaitConnections(0));
  EXPECT_EQ(allocations.Stop(), 0) << AllocationCount::FirstOnes();
}

TEST_P(OneModeAllocationTest, APlantedAllocationIsCountedWithItsThreadAndPlace) {
  Start();
  WarmUp();
  Client client = Connect();
  ASSERT_EQ(Ask(client, Request(kAllocate, 1234)), 1234u);
  {
    AllocationCount allocations;
    Echo(client, 1234);
    EXPECT_EQ(allocations.Stop(), 0) << AllocationCount::FirstOnes();
  }
  AllocationCount allocations;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Ask(client, Request(kAllocate, 1234)), 1234u);
  EXPECT_EQ(allocations.Stop(), 3);
  const std::string first_ones = AllocationCount::FirstOnes();
  EXPECT_NE(first_ones.find("processor-"), std::string::npos) << first_ones;
  EXPECT_NE(first_ones.find("1234 bytes"), std::string::npos) << first_ones;
  EXPECT_NE(first_ones.find("Handler"), std::string::npos) << first_ones;
}

INSTANTIATE_TEST_SUITE_P(Inline, OneModeAllocationTest,
                         ::testing::Values(Mode{"AcceptorInline", AcceptMode::kAcceptor,
                                                Dispatch::kInline, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gyre
