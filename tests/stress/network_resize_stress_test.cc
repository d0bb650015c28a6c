// Network and handler threads come and go as fast as they can while connections
// that stay, pipelining requests of every kind, and connections that come and go
// use them. No connection may break, no answer be lost, wrong or out of order; at
// the end nothing may be left: no connection, no request byte, no descriptor.
#include <dirent.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

int OpenDescriptors() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

struct Mode {
  const char* disabled;
  Dispatch dispatch;
  int in_flight;
  AcceptMode accept_mode = AcceptMode::kAcceptor;
};

class NetworkResizeStressTest : public ::testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(Modes, NetworkResizeStressTest,
                         ::testing::Values(Mode{"", Dispatch::kPool, 1},
                                           Mode{"", Dispatch::kPool, 4},
                                           Mode{"", Dispatch::kInline, 1},
                                           Mode{"", Dispatch::kPool, 1, AcceptMode::kReusePort},
                                           Mode{"all", Dispatch::kPool, 4, AcceptMode::kReusePort}),
                         [](const auto& info) {
                           return absl::StrCat(
                               info.param.disabled[0] == '\0' ? "Full" : "Rung519",
                               info.param.dispatch == Dispatch::kPool ? "Pool" : "Inline",
                               info.param.in_flight,
                               info.param.accept_mode == AcceptMode::kReusePort ? "Reuse" : "");
                         });

constexpr int64_t kFileBytes = 1 << 18;

// 'e' is echoed at once, 'l' later and from another thread; 'f' is answered by as
// much of the file as the size behind it says.
class Handler {
 public:
  explicit Handler(const TempFile& file) : file_(file), late_([this] { AnswerLate(); }) {}
  void Stop() {
    stop_ = true;
    late_.join();
  }
  void Start(Request* request) {
    const absl::string_view frame = request->frame();
    if (frame[0] == 'l') return held_.Add(request);
    if (frame[0] != 'f') return Echo(request);
    const int64_t size = LoadBigEndian<int32_t>(frame.data() + 1);
    Buffer head = Buffer::Allocate(4);
    StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(size));
    NetworkSend send(std::move(head));
    send.Append(FileSlice{file_.file(), kFileBytes - size, size});
    request->Reply(std::move(send));
  }

 private:
  void AnswerLate() {
    while (!stop_) {
      for (Request* request : held_.TakeAll()) Echo(request);
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  const TempFile& file_;
  Held held_;
  std::atomic<bool> stop_{false};
  std::thread late_;
};

// Sends a burst of requests in one stream and checks every answer. False: one was
// wrong, or missing.
bool Burst(Client& client, std::mt19937& random, const std::string& content) {
  std::string stream;
  std::vector<std::string> expected;
  const int count = 1 + static_cast<int>(random() % 16);
  for (int i = 0; i < count; ++i) {
    const uint32_t roll = random() % 16;
    if (roll == 0) {
      const auto size = static_cast<int32_t>(1 + random() % kFileBytes);
      std::string request(5, 'f');
      StoreBigEndian<int32_t>(&request[1], size);
      stream += Framed(request);
      expected.push_back(content.substr(static_cast<size_t>(kFileBytes - size)));
      continue;
    }
    size_t size = random() % 300;
    if (roll == 1) size = random() % 30'000;
    if (roll == 2) size = random() % 400'000;
    expected.push_back((roll % 4 == 3 ? "l" : "e") + Pattern(size, random()));
    stream += Framed(expected.back());
  }
  if (random() % 4 == 0) {
    // Mid-frame for a while.
    const size_t half = random() % stream.size();
    client.Send(absl::string_view(stream).substr(0, std::min<size_t>(half, 4'000)));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
    stream.erase(0, std::min<size_t>(half, 4'000));
  }
  client.SendInBackground(std::move(stream));
  for (const std::string& payload : expected) {
    if (client.ReadFrame() != payload) return false;
  }
  return true;
}

TEST_P(NetworkResizeStressTest, NoClientNoticesAndNothingIsLeft) {
  const int descriptors_before = OpenDescriptors();
  const std::string content = Pattern(kFileBytes, 5);
  std::atomic<int64_t> right{0};
  std::atomic<int> wrong{0};
  int resizes = 0;
  {
    TempFile file(content);
    Handler handler(file);
    TestServer server(
        GetParam().disabled, [&](Request* request) { handler.Start(request); },
        [&](SocketServerOptions& options) {
          options.accept_mode = GetParam().accept_mode;
          options.queued_max_requests = 4;
          options.queued_max_request_bytes = 3 << 20;
          options.sockets.send_buffer_bytes = 16'384;
          ProcessorOptions& processor = options.processor;
          processor.receive_buffer_bytes = 4096;
          processor.receive_buffer_count = 16;
          processor.splice_pipe_count = 1;
          processor.connection.socket_request_max_bytes = 1 << 20;
          processor.connection.receive_ahead_bytes = 8192;
          processor.connection.send_quantum_bytes = 32'768;
          processor.connection.dispatch = GetParam().dispatch;
          processor.connection.max_in_flight_requests_per_connection = GetParam().in_flight;
        });
    const uint32_t seed = std::random_device()();
    RecordProperty("seed", static_cast<int>(seed));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1'500);
    const auto before_end = [end] { return std::chrono::steady_clock::now() < end; };
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 12; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(seed + t);
        const bool stays = t % 3 != 0;
        while (before_end()) {
          Client client(server.port());
          do {
            if (Burst(client, random, content)) {
              ++right;
            } else {
              ++wrong;
              break;
            }
          } while (stays && before_end());
        }
      });
    }
    std::mt19937 random(seed + 99);
    while (before_end()) {
      const int network = server.server().network_threads();
      const int next = random() % 2 == 0 ? std::min(network * 2, 6) : std::max(1, network / 2);
      EXPECT_TRUE(server.server().ResizeNetworkThreads(next).ok());
      const int handlers = server.server().handler_threads();
      EXPECT_TRUE(server.server()
                      .ResizeHandlerThreads(random() % 2 == 0 ? std::min(handlers * 2, 6)
                                                              : std::max(1, handlers / 2))
                      .ok());
      ++resizes;
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(server.Metric("network_connections_migrated_total"), 0);
    EXPECT_TRUE(server.AwaitConnections(0));
    EXPECT_TRUE(
        AwaitTrue([&] { return server.Metric("kafka_network_socketserver_memorypoolused") == 0; }));
    EXPECT_TRUE(AwaitTrue([&] { return server.Metric("network_connections") == 0; }));
    EXPECT_EQ(server.Metric("network_connections_accepted_total"),
              server.Metric("network_connections_closed_total"));
    EXPECT_TRUE(server.server().Drain(20'000));
    server.server().Stop();
    handler.Stop();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 20);
  EXPECT_GT(resizes, 3);
  EXPECT_EQ(OpenDescriptors(), descriptors_before);
  std::printf("%d resizes, %lld bursts\n", resizes, static_cast<long long>(right.load()));
}

}  // namespace
}  // namespace gyre::testing
