// Connections that come, send in every way, and leave in every way, while small
// bounds make each kind of waiting happen. At the end nothing may be left: no
// connection, no request byte, no descriptor.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/open_descriptors.h"
#include "tests/stress/network_stress.h"

namespace gyre::testing {
namespace {

class NetworkChurnTest : public ::testing::TestWithParam<StressMode> {};

INSTANTIATE_TEST_SUITE_P(Modes, NetworkChurnTest,
                         ::testing::Values(StressMode{"", Dispatch::kPool, 1},
                                           StressMode{"", Dispatch::kPool, 4},
                                           StressMode{"", Dispatch::kInline, 1},
                                           StressMode{"all", Dispatch::kPool, 4},
                                           StressMode{"all", Dispatch::kInline, 1}),
                         NameOfStressMode);

constexpr int64_t kFileBytes = 1 << 20;

// What a connection asks for, and gets: 'e' echo, 'f' a file range of the size
// that follows, 'n' nothing, 'c' the end, 'l' an echo from another thread, 't' an
// echo that throttles for a moment, 'k' one that throttles until another thread ends
// it, 'a' an echo that runs alone.
class Handler {
 public:
  explicit Handler(const TempFile& file) : file_(file), late_([this] { AnswerLate(); }) {}
  // Every Reply has returned.
  void Stop() {
    stop_ = true;
    late_.join();
    AnswerHeld();
  }

  void Start(RequestPtr request) {
    const absl::string_view frame = request->frame();
    switch (frame.empty() ? 'e' : frame[0]) {
      case 'f':
        return AnswerFileRequest(std::move(request), file_.file(), kFileBytes);
      case 'n':
        return request.ReplyNothing();
      case 'c':
        return request.CloseConnection("asked for");
      case 'l':
        return held_.Add(std::move(request));
      case 't':
        request->Throttle(200'000);
        return Echo(std::move(request));
      case 'k': {
        {
          MutexLock lock(tokens_mutex_);
          tokens_.push_back(request->StartThrottling(1));
        }
        return frame.size() % 2 == 0 ? Echo(std::move(request)) : held_.Add(std::move(request));
      }
      default:
        return Echo(std::move(request));
    }
  }

 private:
  void AnswerLate() {
    while (!stop_) {
      AnswerHeld();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }
  void AnswerHeld() {
    for (RequestPtr& request : held_.TakeAll()) Echo(std::move(request));
    MutexLock lock(tokens_mutex_);
    tokens_.clear();
  }

  const TempFile& file_;
  Held held_;
  Mutex tokens_mutex_;
  std::vector<ThrottleToken> tokens_ ABSL_GUARDED_BY(tokens_mutex_);
  std::atomic<bool> stop_{false};
  std::thread late_;
};

// One connection's life; how many answers were right, or -1 for a wrong one.
int LiveAndLeave(uint16_t port, std::mt19937& random, const std::string& content) {
  // Through a small window large answers come at the pace of TCP's timers.
  const bool small_window = random() % 3 == 0;
  Client client(port, small_window ? 4096 : 0);
  std::string stream;
  std::vector<std::string> expected;
  const int count = static_cast<int>(random() % 12);
  for (int i = 0; i < count; ++i) {
    switch (random() % 11) {
      case 0: {
        const auto size = static_cast<int32_t>(
            1 + random() % (!small_window && random() % 4 == 0 ? kFileBytes : 20'000));
        stream += Framed(FileRequest(size));
        expected.push_back(content.substr(static_cast<size_t>(kFileBytes - size)));
        break;
      }
      case 1:
        stream += Framed("n");
        break;
      case 2: {
        const std::string payload = "l" + Pattern(random() % 9000, random());
        stream += Framed(payload);
        expected.push_back(payload);
        break;
      }
      case 3: {
        const std::string payload =
            "e" + Pattern(random() % (small_window ? 20'000 : 400'000), random());
        stream += Framed(payload);
        expected.push_back(payload);
        break;
      }
      case 4:
      case 5:
      case 6: {
        const std::string payload =
            std::string(1, "tka"[random() % 3]) + Pattern(random() % 300, random());
        stream += Framed(payload);
        expected.push_back(payload);
        break;
      }
      default: {
        const std::string payload = "e" + Pattern(random() % 300, random());
        stream += Framed(payload);
        expected.push_back(payload);
        break;
      }
    }
  }
  const bool broken = random() % 10 == 0;
  if (broken) stream += random() % 2 == 0 ? "GET / HTTP/1.1\r\n\r\n" : Framed("c");
  if (random() % 6 == 0) {
    // Leaves in the middle of a frame, or before it reads anything.
    client.SendUntilFull(absl::string_view(stream).substr(0, random() % (stream.size() + 1)));
    if (random() % 2 == 0) client.Reset();
    return 0;
  }
  client.SendInBackground(stream);
  int right = 0;
  for (const std::string& payload : expected) {
    if (client.ReadFrame() != payload) return -1;
    ++right;
  }
  if (broken && !client.AtEnd()) return -1;
  return right;
}

TEST_P(NetworkChurnTest, NothingIsLeftAndEveryAnswerWasRight) {
  const int descriptors_before = OpenDescriptors();
  const std::string content = Pattern(kFileBytes, 5);
  std::atomic<int64_t> right{0};
  std::atomic<int> wrong{0};
  {
    TempFile file(content);
    Handler handler(file);
    TestServer server(
        GetParam().disabled, [&](RequestPtr request) { handler.Start(std::move(request)); },
        [&](SocketServerOptions& options) {
          SetTightBounds(GetParam(), options);
          options.max_connections = 12;
          options.lanes = {{"first", 1}, {"second", 3}};
          ConnectionOptions& connection = options.processor.connection;
          connection.dispatch_quantum_bytes = 2048;
          connection.max_in_flight_bytes_per_connection = 50'000;
        });
    server.handler().lane_of = [](const Request& request) {
      return static_cast<int>(request.frame().size() % 3);
    };
    server.handler().runs_alone = [](const Request& request) {
      return !request.frame().empty() && request.frame()[0] == 'a';
    };
    std::vector<std::thread> threads;
    const uint32_t seed = std::random_device()();
    RecordProperty("seed", static_cast<int>(seed));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    for (uint32_t t = 0; t < 16; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(seed + t);
        while (std::chrono::steady_clock::now() < end) {
          const int result = LiveAndLeave(server.port(), random, content);
          if (result < 0) {
            ++wrong;
          } else {
            right += result;
          }
        }
      });
    }
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      file.MakeCold();
    }
    for (std::thread& thread : threads) thread.join();
    ExpectNothingLeft(server);
    EXPECT_GT(server.Metric("network_throttles_total"), 0);
    server.server().Stop();
    handler.Stop();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 100);
  EXPECT_EQ(OpenDescriptors(), descriptors_before);
}

}  // namespace
}  // namespace gyre::testing
