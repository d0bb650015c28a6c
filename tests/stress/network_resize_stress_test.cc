// Network and handler threads come and go as fast as they can while connections
// that stay, pipelining requests of every kind, and connections that come and go
// use them. No connection may break, no answer be lost, wrong or out of order; at
// the end nothing may be left: no connection, no request byte, no descriptor.
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/open_descriptors.h"
#include "tests/stress/network_stress.h"

namespace gyre::testing {
namespace {

class NetworkResizeStressTest : public ::testing::TestWithParam<StressMode> {};

INSTANTIATE_TEST_SUITE_P(
    Modes, NetworkResizeStressTest,
    ::testing::Values(StressMode{"", Dispatch::kPool, 1}, StressMode{"", Dispatch::kPool, 4},
                      StressMode{"", Dispatch::kInline, 1},
                      StressMode{"", Dispatch::kPool, 1, AcceptMode::kReusePort},
                      StressMode{"all", Dispatch::kPool, 4, AcceptMode::kReusePort}),
    NameOfStressMode);

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
  void Start(RequestPtr request) {
    const absl::string_view frame = request->frame();
    if (frame[0] == 'l') return held_.Add(std::move(request));
    if (frame[0] != 'f') return Echo(std::move(request));
    AnswerFileRequest(std::move(request), file_.file(), kFileBytes);
  }

 private:
  void AnswerLate() {
    while (!stop_) {
      for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
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
      stream += Framed(FileRequest(size));
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
        GetParam().disabled, [&](RequestPtr request) { handler.Start(std::move(request)); },
        [&](SocketServerOptions& options) { SetTightBounds(GetParam(), options); });
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
      // Live, beside it: how many requests of a connection may be in flight.
      ConnectionOptions connection = server.server().connection_options();
      connection.max_in_flight_requests_per_connection = 1 + static_cast<int>(random() % 6);
      EXPECT_TRUE(server.server().SetConnectionOptions(connection).ok());
      ++resizes;
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(server.Metric("network_connections_migrated_total"), 0);
    ExpectNothingLeft(server);
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
