// Connections that come from several addresses and leave in every way, against every
// quota at once, while the quotas change: a maximum, a rate, an address's maximum and
// rate, what is held, throttled, refused and shed. At the end nothing may be left: no
// token, no held socket, no connection, no descriptor.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"
#include "tests/integration/open_descriptors.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GYRE_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GYRE_SANITIZED 1
#endif

namespace gyre::testing {
namespace {

#ifdef GYRE_SANITIZED
constexpr int kConnections = 6'000;
#else
constexpr int kConnections = 50'000;  // in each of two modes
#endif
constexpr int kClients = 6;

// 127.0.0.<2 + number>: every address of 127/8 is this machine.
SocketAddress Source(uint32_t number) {
  return *ToSocketAddress(Endpoint{"FROM", absl::StrCat("127.0.0.", 2 + number), 0});
}

// Connected from a source address; not valid when the kernel refuses.
UniqueFd ConnectFrom(uint32_t source, const SocketAddress& to) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  const timeval timeout = {20, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  SocketAddress from = Source(source);
  if (bind(fd.get(), from.get(), from.size) != 0 || connect(fd.get(), to.get(), to.size) != 0) {
    return UniqueFd();
  }
  return fd;
}

void SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void CloseWithReset(UniqueFd fd) {
  const linger now = {1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

// What comes until the end of the stream, an error or 20 s without a byte.
std::string ReadToEnd(int fd, bool* timed_out) {
  std::string bytes;
  char buffer[512];
  for (;;) {
    const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
    if (n > 0) {
      bytes.append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EAGAIN) *timed_out = true;
    return bytes;
  }
}

struct Counts {
  std::atomic<int> made{0};
  std::atomic<int> answered{0};
  std::atomic<int> wrong{0};
  std::atomic<int> timed_out{0};
};

// A client's life: connections one after the other, some left open for a while.
class StormClient {
 public:
  StormClient(uint32_t seed, const SocketAddress& server, Counts& counts)
      : random_(seed), server_(server), counts_(counts) {}

  void ConnectOnce() {
    // Source 0 has a maximum of its own, source 1 a rate, of which it waits for nothing.
    const auto source = static_cast<uint32_t>(random_() % 12);
    UniqueFd fd = ConnectFrom(source, server_);
    ++counts_.made;
    if (!fd.valid()) return;
    const std::string frame = Framed(Pattern(1 + random_() % 300, random_()));
    switch (random_() % (source == 1 ? 5 : 8)) {
      case 0:  // closed before anything is sent
        return;
      case 1:
        return CloseWithReset(std::move(fd));
      case 2:  // mid-frame
        return SendAll(fd.get(), absl::string_view(frame).substr(0, 1 + random_() % 4));
      case 3:
        SendAll(fd.get(), absl::string_view(frame).substr(0, frame.size() / 2));
        return CloseWithReset(std::move(fd));
      case 4:  // closed with an answer on its way
        return SendAll(fd.get(), frame);
      case 5:
      case 6:
        return HalfClose(fd.get(), frame);
      default:  // left open, until others take its place
        idle_.push_back(std::move(fd));
        if (idle_.size() > 6) idle_.pop_front();
    }
  }

 private:
  // All that was sent is answered, or nothing is: refused, throttled, shed.
  void HalfClose(int fd, const std::string& frame) {
    SendAll(fd, frame);
    shutdown(fd, SHUT_WR);
    bool timed_out = false;
    const std::string answer = ReadToEnd(fd, &timed_out);
    if (timed_out) ++counts_.timed_out;
    if (answer == frame) ++counts_.answered;
    if (!answer.empty() && absl::string_view(frame).substr(0, answer.size()) != answer) {
      ++counts_.wrong;
    }
  }

  std::mt19937 random_;
  const SocketAddress server_;
  Counts& counts_;
  std::deque<UniqueFd> idle_;
};

// Moves the limits about, so that each of them is reached and left again.
void ChangeLimits(ConnectionQuotas& quotas, const std::atomic<bool>& done) {
  for (int i = 0; !done.load(); ++i) {
    const bool tight = i % 2 == 0;
    EXPECT_TRUE(quotas.SetMaxConnections(tight ? 12 : 60).ok());
    EXPECT_TRUE(
        quotas.SetMaxConnectionCreationRate(i % 4 < 2 ? 20'000 : ConnectionQuotaOptions::kUnlimited)
            .ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(quotas.SetMaxConnections(60).ok());
  EXPECT_TRUE(quotas.SetMaxConnectionCreationRate(ConnectionQuotaOptions::kUnlimited).ok());
}

struct Mode {
  const char* disabled;
  AcceptMode accept_mode;
};

class ConnectionQuotaStressTest : public ::testing::TestWithParam<Mode> {};

INSTANTIATE_TEST_SUITE_P(Modes, ConnectionQuotaStressTest,
                         ::testing::Values(Mode{"", AcceptMode::kAcceptor},
                                           Mode{"all", AcceptMode::kReusePort}),
                         [](const ::testing::TestParamInfo<Mode>& info) {
                           return info.param.accept_mode == AcceptMode::kAcceptor
                                      ? "FullAcceptor"
                                      : "Rung519ReusePort";
                         });

TEST_P(ConnectionQuotaStressTest, AfterAHundredThousandConnectionsNothingIsLeft) {
  const int descriptors_before = OpenDescriptors();
  Counts counts;
  {
    TestServer server(GetParam().disabled, Echo, [](SocketServerOptions& options) {
      options.accept_mode = GetParam().accept_mode;
      options.num_network_threads = 2;
      options.max_connections = 60;
      options.max_connections_per_ip_overrides = "127.0.0.2:2";
      options.max_connection_creation_rate_per_ip_overrides = "127.0.0.3:2";
      options.quota_window_num = 2;
      options.sockets.listen_backlog_size = 1024;
    });
    ConnectionQuotas& quotas = server.server().connection_quotas();
    const SocketAddress address = *ToSocketAddress(server.server().bound_endpoints()[0]);
    const uint32_t seed = std::random_device()();
    RecordProperty("seed", static_cast<int>(seed));

    std::atomic<bool> done{false};
    std::thread changes([&] { ChangeLimits(quotas, done); });
    std::vector<std::thread> clients;
    for (uint32_t i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] {
        StormClient client(seed + i, address, counts);
        while (counts.made.load() < kConnections) client.ConnectOnce();
      });
    }
    for (std::thread& client : clients) client.join();
    done.store(true);
    changes.join();

    EXPECT_TRUE(server.AwaitConnections(0));
    EXPECT_TRUE(AwaitTrue([&] { return quotas.held() == 0; }));
    EXPECT_EQ(quotas.addresses(), 0u);
    EXPECT_EQ(server.Metric("network_connections"), 0);
    EXPECT_EQ(server.Metric("network_connections_accepted_total"),
              server.Metric("network_connections_closed_total"));
    // Each way of being turned away was gone.
    for (const char* metric :
         {"network_connections_refused_per_ip_total", "network_connections_throttled_per_ip_total",
          "network_connections_shed_total", "network_accept_pauses_total"}) {
      EXPECT_GT(server.Metric(metric), 0) << metric;
    }
    // Throttled sockets end by themselves; until then they are the only ones left.
    server.server().Stop();
  }
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_EQ(counts.timed_out, 0);
  EXPECT_GT(counts.answered, 100);
  EXPECT_EQ(OpenDescriptors(), descriptors_before);
}

}  // namespace
}  // namespace gyre::testing
