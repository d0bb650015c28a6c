// Connections that come, send in every way, and leave in every way, while small
// bounds make each kind of waiting happen. At the end nothing may be left: no
// connection, no request byte, no descriptor.
#include <dirent.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/concurrent/mutex.h"
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
};

class NetworkChurnTest : public ::testing::TestWithParam<Mode> {};

std::string NameOf(const ::testing::TestParamInfo<Mode>& info) {
  return absl::StrCat(info.param.disabled[0] == '\0' ? "Full" : "Rung519",
                      info.param.dispatch == Dispatch::kPool ? "Pool" : "Inline",
                      info.param.in_flight);
}

INSTANTIATE_TEST_SUITE_P(Modes, NetworkChurnTest,
                         ::testing::Values(Mode{"", Dispatch::kPool, 1},
                                           Mode{"", Dispatch::kPool, 4},
                                           Mode{"", Dispatch::kInline, 1},
                                           Mode{"all", Dispatch::kPool, 4},
                                           Mode{"all", Dispatch::kInline, 1}),
                         NameOf);

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
  }

  void Start(Request* request) {
    const absl::string_view frame = request->frame();
    switch (frame.empty() ? 'e' : frame[0]) {
      case 'f': {
        const int64_t size = LoadBigEndian<int32_t>(frame.data() + 1);
        Buffer head = Buffer::Allocate(4);
        StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(size));
        NetworkSend send(std::move(head));
        send.Append(FileSlice{file_.file(), kFileBytes - size, size});
        return request->Reply(std::move(send));
      }
      case 'n':
        return request->ReplyNothing();
      case 'c':
        return request->CloseConnection("asked for");
      case 'l':
        return held_.Add(request);
      case 't':
        request->Throttle(200'000);
        return Echo(request);
      case 'k': {
        {
          MutexLock lock(tokens_mutex_);
          tokens_.push_back(request->StartThrottling(1));
        }
        return frame.size() % 2 == 0 ? Echo(request) : held_.Add(request);
      }
      default:
        return Echo(request);
    }
  }

 private:
  void AnswerLate() {
    while (!stop_) {
      for (Request* request : held_.TakeAll()) Echo(request);
      {
        MutexLock lock(tokens_mutex_);
        tokens_.clear();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
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
        std::string request(5, 'f');
        StoreBigEndian<int32_t>(&request[1], size);
        stream += Framed(request);
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
        GetParam().disabled, [&](Request* request) { handler.Start(request); },
        [&](SocketServerOptions& options) {
          options.queued_max_requests = 4;
          options.queued_max_request_bytes = 3 << 20;
          options.max_connections = 12;
          options.lanes = {{"first", 1}, {"second", 3}};
          options.sockets.send_buffer_bytes = 16'384;
          ProcessorOptions& processor = options.processor;
          processor.receive_buffer_bytes = 4096;
          processor.receive_buffer_count = 16;
          processor.splice_pipe_count = 1;
          processor.connection.socket_request_max_bytes = 1 << 20;
          processor.connection.receive_ahead_bytes = 8192;
          processor.connection.send_quantum_bytes = 32'768;
          processor.connection.dispatch_quantum_bytes = 2048;
          processor.connection.max_in_flight_bytes_per_connection = 50'000;
          processor.connection.dispatch = GetParam().dispatch;
          processor.connection.max_in_flight_requests_per_connection = GetParam().in_flight;
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
    EXPECT_TRUE(server.AwaitConnections(0));
    EXPECT_TRUE(
        AwaitTrue([&] { return server.Metric("kafka_network_socketserver_memorypoolused") == 0; }));
    EXPECT_EQ(server.Metric("network_connections"), 0);
    EXPECT_EQ(server.Metric("network_throttled_connections"), 0);
    EXPECT_GT(server.Metric("network_throttles_total"), 0);
    EXPECT_EQ(server.Metric("network_connections_accepted_total"),
              server.Metric("network_connections_closed_total"));
    EXPECT_TRUE(server.server().Drain(1'000));
    server.server().Stop();
    handler.Stop();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 100);
  EXPECT_EQ(OpenDescriptors(), descriptors_before);
}

}  // namespace
}  // namespace gyre::testing
