// Zero-copy sends over real sockets. On loopback the kernel copies and says so; so
// it does where both ends of a veth pair are on one machine, but there the bytes
// cross a device, are acknowledged late and may be segmented.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/network/connection/zero_copy.h"
#include "engine/network/endpoint.h"
#include "engine/uring/features.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

constexpr int64_t kThresholdBytes = 4096;

// Answers "size" with a frame of so many bytes, Pattern(size, 1), from the slab.
struct PatternServer {
  explicit PatternServer(const std::string& disabled,
                         const std::function<void(SocketServerOptions&)>& change = {})
      : server(
            disabled, [this](RequestPtr request) { Answer(std::move(request)); },
            [&change](SocketServerOptions& options) {
              options.processor.connection.zero_copy_min_bytes = kThresholdBytes;
              options.num_network_threads = 1;
              if (change) change(options);
            }) {
    allocator = &server.server().response_buffers();
  }

  void Answer(RequestPtr request) {
    int32_t size = 0;
    if (!absl::SimpleAtoi(request->frame(), &size)) return request.CloseConnection("not a size");
    const std::string content = Pattern(static_cast<size_t>(size), 1);
    Buffer buffer = allocator.load()->Allocate(static_cast<uint32_t>(size) + 4);
    StoreBigEndian<int32_t>(buffer.data(), size);
    std::memcpy(buffer.data() + 4, content.data(), content.size());
    request.Reply(NetworkSend(std::move(buffer)));
  }

  std::atomic<BufferAllocator*> allocator{nullptr};
  TestServer server;
};

constexpr char kSends[] = "network_zero_copy_sends_total";
constexpr char kCopied[] = "network_zero_copy_copied_total";
constexpr char kPinned[] = "network_zero_copy_pinned_bytes";
constexpr char kResets[] = "network_zero_copy_resets_total";

bool KernelReports() {
  const absl::StatusOr<uring::Features> features = uring::ProbeFeatures(uring::FeatureSet());
  return features.ok() && features->Has(uring::Feature::kSendZeroCopyReport);
}

TEST(ZeroCopyTest, OnLoopbackItIsSwitchedOffAndTheDataIsRight) {
  if (!KernelReports()) GTEST_SKIP() << "the kernel does not report zero-copy usage";
  PatternServer pattern("");
  Client client(pattern.server.port());
  constexpr int kAnswers = 12;
  for (int i = 0; i < kAnswers; ++i) {
    const int size = 5'000 + 20'000 * i;
    client.SendFrame(absl::StrCat(size));
    ASSERT_EQ(client.ReadFrame(), Pattern(static_cast<size_t>(size), 1)) << i;
    // The notification is in before the next answer, so that the count is exact.
    ASSERT_TRUE(AwaitTrue([&] { return pattern.server.Metric(kPinned) == 0; }));
  }
  // A send may have been cut in two, but not for long.
  EXPECT_GE(pattern.server.Metric(kCopied), ZeroCopySends::kMaxCopied);
  EXPECT_LT(pattern.server.Metric(kSends), kAnswers);
  // Another connection is tried anew.
  const int64_t before = pattern.server.Metric(kSends);
  Client other(pattern.server.port());
  other.SendFrame("8000");
  EXPECT_EQ(other.ReadFrame(), Pattern(8'000, 1));
  EXPECT_EQ(pattern.server.Metric(kSends), before + 1);
}

TEST(ZeroCopyTest, WithoutTheFeatureEverythingIsCopied) {
  for (const char* disabled : {"all", "send_zc", "send_zc_report"}) {
    SCOPED_TRACE(disabled);
    PatternServer pattern(disabled);
    Client client(pattern.server.port());
    client.SendFrame("100000");
    EXPECT_EQ(client.ReadFrame(), Pattern(100'000, 1));
    EXPECT_EQ(pattern.server.Metric(kSends), 0);
  }
}

TEST(ZeroCopyTest, SmallAnswersAreCopied) {
  PatternServer pattern("");
  Client client(pattern.server.port());
  client.SendFrame("4000");
  EXPECT_EQ(client.ReadFrame(), Pattern(4'000, 1));
  EXPECT_EQ(pattern.server.Metric(kSends), 0);
}

TEST(ZeroCopyTest, TheThresholdChangesOnConnectionsThatAreThere) {
  if (!KernelReports()) GTEST_SKIP() << "the kernel does not report zero-copy usage";
  PatternServer pattern("", [](SocketServerOptions& options) {
    options.processor.connection.zero_copy_min_bytes = -1;
  });
  SocketServer& server = pattern.server.server();
  Client client(pattern.server.port());
  // Once answered it is with its processor, and on the lists below.
  client.SendFrame("1");
  ASSERT_EQ(client.ReadFrame(), Pattern(1, 1));
  int64_t sends = 0;
  // {threshold, whether an answer of 8,000 bytes is sent so}
  for (const auto& [min_bytes, used] : {std::pair(-1, 0), std::pair(8'000, 1), std::pair(8'005, 0),
                                        std::pair(0, 1), std::pair(-1, 0)}) {
    ConnectionOptions options = server.connection_options();
    options.zero_copy_min_bytes = min_bytes;
    ASSERT_TRUE(server.SetConnectionOptions(options).ok());
    ASSERT_EQ(server.ListConnections(10, 20'000).size(), 1u);
    client.SendFrame("8000");
    ASSERT_EQ(client.ReadFrame(), Pattern(8'000, 1));
    sends += used;
    EXPECT_EQ(pattern.server.Metric(kSends), sends) << min_bytes;
  }
}

TEST(ZeroCopyTest, WhatMayBePinnedChangesOnConnectionsThatAreThere) {
  if (!KernelReports()) GTEST_SKIP() << "the kernel does not report zero-copy usage";
  PatternServer pattern("");
  SocketServer& server = pattern.server.server();
  Client client(pattern.server.port());
  // Once answered it is with its processor, and on the lists below.
  client.SendFrame("1");
  ASSERT_EQ(client.ReadFrame(), Pattern(1, 1));
  constexpr int kAnswerBytes = 8'000 + 4;
  int64_t sends = 0;
  // {the bound, whether an answer, an eighth of it at most, is sent so}
  for (const auto& [max_bytes, used] :
       {std::pair(0, 0), std::pair(8 * kAnswerBytes, 1), std::pair(8 * kAnswerBytes - 1, 0),
        std::pair(1 << 20, 1), std::pair(0, 0)}) {
    ConnectionOptions options = server.connection_options();
    options.zero_copy_max_pinned_bytes = max_bytes;
    ASSERT_TRUE(server.SetConnectionOptions(options).ok());
    ASSERT_EQ(server.ListConnections(10, 20'000).size(), 1u);
    client.SendFrame("8000");
    ASSERT_EQ(client.ReadFrame(), Pattern(8'000, 1));
    sends += used;
    EXPECT_EQ(pattern.server.Metric(kSends), sends) << max_bytes;
    ASSERT_TRUE(AwaitTrue([&] { return pattern.server.Metric(kPinned) == 0; }));
  }
}

TEST(ZeroCopyTest, APeerThatDoesNotAcknowledgeIsResetAtTheCloseDeadline) {
  if (!KernelReports()) GTEST_SKIP() << "the kernel does not report zero-copy usage";
  PatternServer pattern("", [](SocketServerOptions& options) {
    options.processor.zero_copy_close_timeout_ms = 100;
    options.sockets.send_buffer_bytes = 1 << 20;
  });
  // The answer fits into the socket's buffer but not into the peer's window: it is
  // sent, and pinned until the peer reads.
  Client client(pattern.server.port(), /*receive_buffer_bytes=*/4096);
  client.SendFrame("200000");
  client.FinishSending();
  ASSERT_TRUE(pattern.server.AwaitMetric(kResets, 1));
  EXPECT_TRUE(pattern.server.AwaitConnections(0));
  EXPECT_TRUE(AwaitTrue([&] { return pattern.server.Metric(kPinned) == 0; }));
  EXPECT_EQ(client.ReadFrame(), "<closed>");
}

TEST(ZeroCopyTest, AServerThatStopsDoesNotWaitForAcknowledgements) {
  if (!KernelReports()) GTEST_SKIP() << "the kernel does not report zero-copy usage";
  PatternServer pattern("", [](SocketServerOptions& options) {
    options.processor.zero_copy_close_timeout_ms = 3'600'000;
    options.sockets.send_buffer_bytes = 1 << 20;
  });
  Client client(pattern.server.port(), /*receive_buffer_bytes=*/4096);
  client.SendFrame("200000");
  ASSERT_TRUE(AwaitTrue([&] { return pattern.server.Metric(kPinned) > 0; }));
  pattern.server.server().Stop();
  EXPECT_EQ(pattern.server.Metric(kResets), 1);
}

// --- over a veth pair ------------------------------------------------------------

constexpr char kServerAddress[] = "10.77.0.1";
constexpr char kClientAddress[] = "10.77.0.2";

bool Run(const std::string& command) {
  return std::system(absl::StrCat(command, " >/dev/null 2>&1").c_str()) == 0;
}

// A thread that lives in a network namespace of its own, for the client's end.
class OtherNamespace {
 public:
  OtherNamespace() {
    thread_ = std::thread([this] {
      const bool entered = unshare(CLONE_NEWNET) == 0;
      thread_id_ = entered ? static_cast<int>(syscall(SYS_gettid)) : -1;
      ready_.store(true);
      ready_.notify_all();
      go_.wait(false);
      if (work_) work_();
    });
    ready_.wait(false);
  }
  ~OtherNamespace() { Finish({}); }

  int thread_id() const { return thread_id_; }
  // Runs `work` there, as the last thing.
  void Finish(std::function<void()> work) {
    if (!thread_.joinable()) return;
    work_ = std::move(work);
    go_.store(true);
    go_.notify_all();
    thread_.join();
  }

 private:
  std::thread thread_;
  int thread_id_ = -1;
  std::function<void()> work_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> go_{false};
};

// "" when there is a veth pair between here and `other`, else what is missing.
std::string MakeVethPair(int other) {
  const std::string there = absl::StrCat("nsenter --net=/proc/", other, "/ns/net ");
  if (!Run("ip link set lo up")) return "no ip(8)";
  if (!Run(absl::StrCat("ip link add gyre0 type veth peer name gyre1 netns ", other))) {
    return "ip link add type veth is refused";
  }
  if (!Run(absl::StrCat("ip addr add ", kServerAddress, "/24 dev gyre0")) ||
      !Run("ip link set gyre0 up") ||
      !Run(absl::StrCat(there, "ip addr add ", kClientAddress, "/24 dev gyre1")) ||
      !Run(absl::StrCat(there, "ip link set gyre1 up"))) {
    return "the veth pair cannot be configured";
  }
  // Late acknowledgements, where the kernel has netem.
  if (!Run("tc qdisc add dev gyre0 root netem delay 2ms")) std::printf("without netem\n");
  return "";
}

void ServeOverVeth(OtherNamespace& other) {
  PatternServer pattern("", [](SocketServerOptions& options) {
    options.listeners[0].endpoint = *ParseEndpoint(absl::StrCat("TEST://", kServerAddress, ":0"));
  });
  constexpr int kAnswers = 20;
  int right = 0;
  other.Finish([&] {
    UniqueFd fd = Client::MakeSocket();
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(pattern.server.port());
    inet_pton(AF_INET, kServerAddress, &address.sin_addr);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return;
    Client client(std::move(fd));
    for (int i = 0; i < kAnswers; ++i) {
      const int size = 5'000 + 12'000 * i;
      client.SendFrame(absl::StrCat(size));
      if (client.ReadFrame() == Pattern(static_cast<size_t>(size), 1)) ++right;
    }
  });
  EXPECT_EQ(right, kAnswers);
  EXPECT_TRUE(AwaitTrue([&] { return pattern.server.Metric(kPinned) == 0; }));
  const int64_t sends = pattern.server.Metric(kSends);
  const int64_t copied = pattern.server.Metric(kCopied);
  std::printf("%d answers over veth: %lld zero-copy sends, %lld of them copied\n", right,
              static_cast<long long>(sends), static_cast<long long>(copied));
  EXPECT_GT(sends, 0);
  // Either the kernel copied, and it was switched off, or everything went so.
  if (copied >= ZeroCopySends::kMaxCopied) {
    EXPECT_LT(sends, kAnswers);
  } else {
    EXPECT_GE(sends, kAnswers);
  }
  pattern.server.server().Stop();
}

TEST(ZeroCopyTest, OverAVethPairBetweenNamespaces) {
  if (!KernelReports()) GTEST_SKIP() << "the kernel does not report zero-copy usage";
  constexpr int kRefused = 77;
  std::fflush(stdout);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // As root, or in a user namespace where the machine allows one.
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      std::printf("unshare(CLONE_NEWNET): %s\n", std::strerror(errno));
      std::fflush(stdout);
      _exit(kRefused);
    }
    OtherNamespace other;
    const std::string missing =
        other.thread_id() < 0 ? "no second namespace" : MakeVethPair(other.thread_id());
    if (missing.empty()) {
      ServeOverVeth(other);
    } else {
      std::printf("%s\n", missing.c_str());
    }
    other.Finish({});
    std::fflush(stdout);
    _exit(!missing.empty() ? kRefused : HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "status " << status;
  if (WEXITSTATUS(status) == kRefused) {
    GTEST_SKIP() << "this machine refuses a veth pair in a network namespace (see above)";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace gyre::testing
