// A server with a memory limit, in a process of its own, under attack: 10,000
// connections that announce 100 MB each and send some of it, frames that trickle, readers
// that ask for large answers and take nothing or next to nothing, and those that were
// answered by little until now, and handlers that make large answers for many of them at
// once. Its resident memory stays under the limit, and who behaves
// well is served throughout: small requests without a pause, large ones in their turn.
//
// There are fewer attackers where the descriptor limit is lower, and under a sanitizer,
// where resident memory says nothing.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/endian.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

constexpr int64_t kLimitBytes = int64_t{384} << 20;
constexpr int32_t kAnnouncedBytes = 100'000'000;
constexpr size_t kAnnouncers = kSanitized ? 1'000 : 10'000;
// Of all of them together several times what requests may hold.
constexpr size_t kSentOfAnnounced = kSanitized ? 300'000 : 40'000;
constexpr size_t kSlowReaders = kSanitized ? 300 : 600;
constexpr size_t kSlowWriters = kSanitized ? 100 : 1'000;
constexpr uint32_t kLargeAnswerBytes = 1'000'000;
// Of those that handlers ask room for. All of them together are many times the limit.
constexpr uint32_t kHugeAnswerBytes = 50'000'000;
constexpr size_t kHugeReaders = kSanitized ? 8 : 40;
constexpr int32_t kHugeInFlight = 10;
// What runs beside the attackers.
constexpr size_t kOtherDescriptors = 300;

// "large": so many bytes; "huge": so many if there is room for them, else "busy"; else an
// echo.
void Answer(RequestPtr request, BufferAllocator& buffers) {
  if (request->frame() == "huge") {
    std::optional<Buffer> answer = buffers.TryAllocate(kHugeAnswerBytes + 4);
    if (!answer.has_value()) return ReplyFramed(std::move(request), "busy");
    StoreBigEndian<int32_t>(answer->data(), int32_t{kHugeAnswerBytes});
    std::fill_n(answer->data() + 4, kHugeAnswerBytes, 'H');
    return request.Reply(NetworkSend(*std::move(answer)));
  }
  const bool large = request->frame() == "large";
  const uint32_t size_bytes =
      large ? kLargeAnswerBytes : static_cast<uint32_t>(request->frame().size());
  Buffer answer = buffers.Allocate(size_bytes + 4);
  StoreBigEndian<int32_t>(answer.data(), static_cast<int32_t>(size_bytes));
  if (large) {
    std::fill_n(answer.data() + 4, size_bytes, 'L');
  } else {
    std::copy(request->frame().begin(), request->frame().end(), answer.data() + 4);
  }
  request.Reply(NetworkSend(std::move(answer)));
}

// The server's process: says its port and serves until the pipe's other end is shut. Then
// it writes what it counted.
[[noreturn]] void Serve(int out_fd, int end_fd, int32_t in_flight) {
  std::atomic<BufferAllocator*> buffers{&BufferAllocator::Heap()};
  TestServer server(
      "", [&](RequestPtr request) { Answer(std::move(request), *buffers.load()); },
      [in_flight](SocketServerOptions& options) {
        options.processor.connection.max_in_flight_requests_per_connection = in_flight;
        options.memory_limit_bytes = kLimitBytes;
        options.queued_max_requests = 64;
        options.sockets.listen_backlog_size = 4096;
        // Else the kernel would hold the answers that are not read.
        options.sockets.send_buffer_bytes = 128 * 1024;
      });
  buffers.store(&server.server().response_buffers());
  const uint16_t port = server.port();
  if (write(out_fd, &port, sizeof(port)) != sizeof(port)) _exit(1);
  char byte;
  while (read(end_fd, &byte, 1) > 0) {
  }
  const int64_t counted[] = {server.Metric("network_partial_requests_broken_total"),
                             server.Metric("network_responses_shed_total"),
                             server.Metric("network_responses_stalled_total")};
  if (write(out_fd, counted, sizeof(counted)) != sizeof(counted)) _exit(1);
  _exit(0);
}

// One that behaves well, from a thread of its own: small requests, one after the other,
// some of them in two pieces.
class GoodClient {
 public:
  explicit GoodClient(uint16_t port) : client_(port), thread_([this] { Run(); }) {}
  ~GoodClient() {
    stop_.store(true);
    thread_.join();
  }
  // Waits until `count` more were served.
  bool AwaitServed(int64_t count) {
    const int64_t until = served_.load() + count;
    return AwaitTrue([&] { return served_.load() >= until || failed_.load(); }) && !failed_.load();
  }
  bool failed() const { return failed_.load(); }

 private:
  void Run() {
    for (size_t i = 0; !stop_.load(); ++i) {
      const std::string frame = Framed(Pattern(100 + i * 37 % 6'000, 3));
      const size_t first = i % 4 == 0 ? frame.size() / 2 : frame.size();
      client_.Send(absl::string_view(frame).substr(0, first));
      if (first < frame.size()) std::this_thread::yield();
      client_.Send(absl::string_view(frame).substr(first));
      if (client_.ReadFrame() != absl::string_view(frame).substr(4)) {
        failed_.store(true);
        return;
      }
      served_.fetch_add(1);
    }
  }

  Client client_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> served_{0};
  std::thread thread_;
};

// Moves one byte of each of its connections, over and over.
class Drip {
 public:
  void Write(int fd) { fds_[0].push_back(fd); }
  void Read(int fd) { fds_[1].push_back(fd); }
  void Start() {
    thread_ = std::thread([this] {
      while (!stop_.load()) {
        char byte = 'x';
        for (const int fd : fds_[0]) send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        for (const int fd : fds_[1]) recv(fd, &byte, 1, MSG_DONTWAIT);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
  }
  ~Drip() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::vector<int> fds_[2];
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class MemoryAttackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int out_fds[2];
    int end_fds[2];
    ASSERT_EQ(pipe(out_fds), 0);
    ASSERT_EQ(pipe(end_fds), 0);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      close(out_fds[0]);
      close(end_fds[1]);
      Serve(out_fds[1], end_fds[0], in_flight_);
    }
    close(out_fds[1]);
    close(end_fds[0]);
    end_fd_.Reset(end_fds[1]);
    out_fd_.Reset(out_fds[0]);
    ASSERT_EQ(read(out_fd_.get(), &port_, sizeof(port_)), static_cast<ssize_t>(sizeof(port_)));
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto descriptors = static_cast<size_t>(limit.rlim_cur);
    const size_t others = kSlowReaders + 2 * kSlowWriters + kOtherDescriptors;
    ASSERT_GT(descriptors, others + 100);
    announcers_ = std::min(kAnnouncers, descriptors - others);
  }
  void TearDown() override {
    attackers_.clear();
    end_fd_.Reset();
    int64_t counted[3] = {};
    EXPECT_EQ(read(out_fd_.get(), counted, sizeof(counted)), static_cast<ssize_t>(sizeof(counted)));
    std::printf("closed: %lld with partial requests, %lld at once for answers, %lld stalled\n",
                static_cast<long long>(counted[0]), static_cast<long long>(counted[1]),
                static_cast<long long>(counted[2]));
    if (breaks_partials_) EXPECT_GT(counted[0], 0);
    // Whichever comes first makes the room that others wait for.
    EXPECT_GT(counted[1] + counted[2], 0);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

  // The most that was resident so far, from /proc.
  int64_t PeakResidentBytes() const {
    std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
    std::string line;
    while (std::getline(status, line)) {
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      int64_t kilobytes = 0;
      if (words.size() >= 2 && words[0] == "VmHWM:" && absl::SimpleAtoi(words[1], &kilobytes)) {
        return kilobytes * 1024;
      }
    }
    return -1;
  }
  // Closes with a reset, so that its port can be used again.
  Client& Attack(int receive_buffer_bytes = 0) {
    attackers_.push_back(std::make_unique<Client>(port_, receive_buffer_bytes));
    const linger now = {1, 0};
    setsockopt(attackers_.back()->fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    return *attackers_.back();
  }
  void Announce() {
    std::string announced(4, '\0');
    StoreBigEndian<int32_t>(announced.data(), kAnnouncedBytes);
    announced += Pattern(kSentOfAnnounced, 1);
    for (size_t i = 0; i < announcers_; ++i) {
      // What the server does not take stays in the sockets.
      send(Attack().fd(), announced.data(), announced.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  void Check(const char* attack) {
    std::printf("%s: peak %lld MiB\n", attack, static_cast<long long>(PeakResidentBytes() >> 20));
    EXPECT_GT(PeakResidentBytes(), 0);
    if (!kSanitized) EXPECT_LT(PeakResidentBytes(), kLimitBytes) << attack;
  }

  int32_t in_flight_ = 1;
  bool breaks_partials_ = true;
  pid_t pid_ = -1;
  uint16_t port_ = 0;
  size_t announcers_ = 0;
  UniqueFd out_fd_;
  UniqueFd end_fd_;
  std::vector<std::unique_ptr<Client>> attackers_;
};

TEST_F(MemoryAttackTest, MemoryStaysUnderTheLimitAndOthersAreServed) {
  std::printf("%zu of %zu announcers, limit %lld MiB%s\n", announcers_, kAnnouncers,
              static_cast<long long>(kLimitBytes >> 20),
              announcers_ < kAnnouncers ? " (fewer, by the descriptor limit)" : "");
  GoodClient good(port_);
  ASSERT_TRUE(good.AwaitServed(10));
  Check("before");

  Announce();
  ASSERT_TRUE(good.AwaitServed(200));
  Check("announcers");

  // Frames that fit well and never come whole, byte by byte.
  Drip drip;
  for (size_t i = 0; i < kSlowWriters; ++i) {
    Client& small = Attack();
    small.Send(Framed(Pattern(5'000, 1)).substr(0, 1 + i % 4'900));
    Client& medium = Attack();
    medium.Send(Framed(Pattern(200'000, 1)).substr(0, 60'000));
    if (i % 4 == 0) drip.Write(small.fd());
    if (i % 4 == 1) drip.Write(medium.fd());
  }
  ASSERT_TRUE(good.AwaitServed(200));
  Check("slow writers");

  for (size_t i = 0; i < kSlowReaders; ++i) {
    Client& reader = Attack(kSmallWindowBytes);
    if (i % 2 == 0) {
      // Until now its answers were small.
      reader.SendFrame("small");
      EXPECT_EQ(reader.ReadFrame(), "small");
    }
    for (int request = 0; request < 3; ++request) reader.SendFrame("large");
    if (i % 4 == 0) drip.Read(reader.fd());
  }
  drip.Start();
  ASSERT_TRUE(good.AwaitServed(200));
  Check("slow readers");

  // Large requests and large answers take their turn and get through.
  Client large(port_);
  const std::string payload = Pattern(3'000'000, 5);
  large.SendInBackground(Framed(payload));
  EXPECT_TRUE(large.ReadFrame() == payload);
  Client reader(port_);
  for (int i = 0; i < 3; ++i) {
    reader.SendFrame("large");
    EXPECT_EQ(reader.ReadFrame(), std::string(kLargeAnswerBytes, 'L')) << i;
  }
  ASSERT_TRUE(good.AwaitServed(200));
  Check("at the end");
}

class HugeAnswersTest : public MemoryAttackTest {
 protected:
  HugeAnswersTest() {
    in_flight_ = kHugeInFlight;
    breaks_partials_ = false;
  }
};

TEST_F(HugeAnswersTest, HandlersThatAskForRoomStayUnderTheLimitAndReadersAreServed) {
  GoodClient good(port_);
  ASSERT_TRUE(good.AwaitServed(10));
  const int64_t before_bytes = PeakResidentBytes();
  for (size_t i = 0; i < kHugeReaders; ++i) {
    Client& reader = Attack(kSmallWindowBytes);
    for (int32_t request = 0; request < kHugeInFlight; ++request) reader.SendFrame("huge");
  }
  ASSERT_TRUE(good.AwaitServed(200));
  EXPECT_TRUE(AwaitTrue([&] { return PeakResidentBytes() > before_bytes + kHugeAnswerBytes; }));
  // Those who take nothing give way to one who does.
  Client reader(port_);
  size_t answer_bytes = 0;
  EXPECT_TRUE(AwaitTrue([&] {
    reader.SendFrame("huge");
    answer_bytes = reader.ReadFrame().size();
    return answer_bytes != std::string("busy").size();
  }));
  EXPECT_EQ(answer_bytes, kHugeAnswerBytes);
  ASSERT_TRUE(good.AwaitServed(200));
  Check("huge answers");
}

}  // namespace
}  // namespace gyre::testing
