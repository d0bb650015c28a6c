// Outgoing connections against servers of this process: the engine's, and plain sockets
// that do what no server should.
#include "engine/network/connector.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

constexpr int64_t kMaxFrameBytes = 8 << 20;

SocketAddress Loopback(uint16_t port) { return *ToSocketAddress({"", "127.0.0.1", port}); }

// A listening socket that a test plays the server on by hand.
class PlainServer {
 public:
  explicit PlainServer(int backlog = 64) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(fd_.get(), backlog);
    socklen_t size = sizeof(address);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  uint16_t port() const { return port_; }
  UniqueFd Accept() {
    int fd;
    do {
      fd = accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return UniqueFd(fd);
  }
  static void Write(const UniqueFd& to, absl::string_view bytes) {
    EXPECT_EQ(send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void StopListening() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  uint16_t port_ = 0;
};

class ConnectorTest : public ::testing::TestWithParam<const char*>, public ConnectorEvents {
 protected:
  void SetUp() override { Make({}); }
  void Make(const ConnectorOptions& options) {
    connector_.reset();
    const absl::StatusOr<uring::Features> features =
        uring::ProbeFeatures(*uring::ParseDisabled(GetParam()));
    ASSERT_TRUE(features.ok()) << features.status();
    ring_ = *uring::CreateUringRing(*features, uring::RingOptions());
    connector_ = std::make_unique<Connector>(*ring_, Clock::Real(), decoder_, *this, options);
    ASSERT_TRUE(connector_->Attach().ok());
  }

  void OnConnected(ConnectionHandle connection) override {
    ++connected_;
    if (on_connected_) on_connected_(connection);
  }
  void OnFrame(ConnectionHandle connection, absl::string_view payload) override {
    frames_[connection.slot].emplace_back(payload);
    ++frame_count_;
    if (on_frame_) on_frame_(connection);
  }
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override {
    closed_.push_back(why);
    EXPECT_FALSE(connector_->Send(connection, "x")) << "it is gone when the event comes";
  }

  // Turns the connector until `done`; false after 20 s.
  bool Await(const std::function<bool()>& done) {
    const int64_t end_ns = Clock::Real().NowNs() + 20'000'000'000;
    while (!done()) {
      if (Clock::Real().NowNs() > end_ns) return false;
      connector_->RunOnce(10'000'000);
    }
    return true;
  }
  ConnectionHandle Connect(uint16_t port) {
    const auto connection = connector_->Connect(Loopback(port));
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *connection;
  }
  // Both ends of an established connection: submits before it waits for the other end.
  UniqueFd ConnectTo(PlainServer& server, ConnectionHandle* connection = nullptr) {
    const size_t before = connected_;
    const ConnectionHandle mine = Connect(server.port());
    if (connection != nullptr) *connection = mine;
    EXPECT_TRUE(Await([&] { return connected_ == before + 1; }));
    return server.Accept();
  }
  bool AwaitClosed() {
    return Await([&] { return !closed_.empty(); });
  }

  const Int32LengthPrefixed decoder_{kMaxFrameBytes};
  std::unique_ptr<uring::Ring> ring_;
  std::unique_ptr<Connector> connector_;
  std::map<uint32_t, std::vector<std::string>> frames_;
  std::vector<absl::Status> closed_;
  std::function<void(ConnectionHandle)> on_connected_, on_frame_;
  size_t connected_ = 0, frame_count_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kernel, ConnectorTest, ::testing::Values("", "all"));

TEST_P(ConnectorTest, FramesOfAllSizesComeBackWholeAndInOrder) {
  TestServer server(GetParam(), Echo, [](SocketServerOptions& options) {
    options.processor.connection.max_in_flight_requests_per_connection = 8;
  });
  Make({.receive_buffer_bytes = 4096, .receive_buffer_count = 16});
  const ConnectionHandle connection = Connect(server.port());
  std::vector<std::string> sent;
  for (const size_t size : {1u, 3u, 4u, 5u, 4091u, 4092u, 4093u, 100'000u, 2u, 1'000'000u, 7u}) {
    sent.push_back(Pattern(size, size));
    // Before the connect is done: queued.
    EXPECT_TRUE(connector_->Send(connection, Framed(sent.back())));
  }
  ASSERT_TRUE(Await([&] { return frame_count_ == sent.size(); }));
  EXPECT_TRUE(frames_[connection.slot] == sent);
  EXPECT_EQ(connector_->unsent_bytes(connection), 0u);
  EXPECT_TRUE(closed_.empty());
}

TEST_P(ConnectorTest, OneThreadDrivesAThousandConnections) {
  TestServer server(GetParam(), Echo, [](SocketServerOptions& options) {
    options.sockets.listen_backlog_size = 2048;
  });
  constexpr size_t kCount = 1000;
  on_connected_ = [&](ConnectionHandle connection) {
    connector_->Send(connection, Framed(absl::StrCat("hello from ", connection.slot)));
  };
  for (size_t i = 0; i < kCount; ++i) Connect(server.port());
  ASSERT_TRUE(Await([&] { return frame_count_ == kCount; }));
  EXPECT_EQ(connector_->connection_count(), kCount);
  for (const auto& [slot, frames] : frames_) {
    EXPECT_EQ(frames, std::vector<std::string>{absl::StrCat("hello from ", slot)});
  }
  EXPECT_TRUE(closed_.empty());
}

TEST_P(ConnectorTest, ARefusedConnectSaysWhoRefused) {
  PlainServer server;
  server.StopListening();
  Connect(server.port());
  ASSERT_TRUE(AwaitClosed());
  EXPECT_EQ(closed_[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(closed_[0].message(),
            absl::StrCat("127.0.0.1:", server.port(), ": connect: Connection refused"));
  EXPECT_EQ(connected_, 0u);
}

TEST_P(ConnectorTest, AConnectThatIsNotAnsweredEndsAtItsDeadline) {
  PlainServer server(/*backlog=*/0);  // Nobody accepts: the queue fills, then connects hang.
  Make({.connect_timeout_ns = 300'000'000});
  for (int i = 0; i < 4; ++i) Connect(server.port());
  ASSERT_TRUE(AwaitClosed());
  EXPECT_EQ(closed_[0].code(), absl::StatusCode::kDeadlineExceeded) << closed_[0];
  EXPECT_TRUE(absl::StrContains(closed_[0].message(), "no answer within 300 ms")) << closed_[0];
}

TEST_P(ConnectorTest, APeerThatClosesOrResetsIsToldOnce) {
  PlainServer server;
  ConnectTo(server).Reset();
  ASSERT_TRUE(AwaitClosed());
  EXPECT_TRUE(absl::EndsWith(closed_[0].message(), "closed by the peer")) << closed_[0];

  PlainServer::Write(ConnectTo(server), absl::string_view("\0\0\0\x9half", 8));
  ASSERT_TRUE(Await([&] { return closed_.size() == 2; }));
  EXPECT_TRUE(absl::EndsWith(closed_[1].message(), "closed by the peer within a frame"));

  {
    const UniqueFd peer = ConnectTo(server);
    const linger now = {1, 0};
    setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  ASSERT_TRUE(Await([&] { return closed_.size() == 3; }));
  EXPECT_EQ(closed_[2].code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Await([&] { return connector_->connection_count() == 0; }));
}

TEST_P(ConnectorTest, WhatIsNoFrameEndsTheConnection) {
  PlainServer server;
  const std::string too_large("\x7f\xff\xff\xff", 4);
  const std::string negative("\xff\xff\xff\xff", 4);
  for (const std::string& garbage :
       {std::string("HTTP/1.1 400 Bad Request\r\n"), too_large, negative}) {
    closed_.clear();
    const UniqueFd peer = ConnectTo(server);
    PlainServer::Write(peer, garbage);
    ASSERT_TRUE(AwaitClosed());
    EXPECT_EQ(closed_[0].code(), absl::StatusCode::kDataLoss) << closed_[0];
  }
  EXPECT_EQ(frame_count_, 0u);
}

TEST_P(ConnectorTest, AFrameInSingleBytesIsOneFrame) {
  PlainServer server;
  ConnectionHandle connection;
  const UniqueFd peer = ConnectTo(server, &connection);
  for (const char byte : Framed("single bytes")) {
    PlainServer::Write(peer, absl::string_view(&byte, 1));
    connector_->RunOnce(1'000'000);
  }
  ASSERT_TRUE(Await([&] { return frame_count_ == 1; }));
  EXPECT_EQ(frames_[connection.slot][0], "single bytes");
}

TEST_P(ConnectorTest, AnEventMayCloseItsConnectionAndOpenTheNext) {
  PlainServer server;
  const UniqueFd first = ConnectTo(server);
  on_frame_ = [&](ConnectionHandle connection) {
    connector_->Close(connection);
    Connect(server.port());
  };
  // The second and third frames belong to a connection that is closed by then.
  PlainServer::Write(first, absl::StrCat(Framed("a"), Framed("b"), Framed("c")));
  ASSERT_TRUE(Await([&] { return connected_ == 2; }));
  EXPECT_EQ(frame_count_, 1u);
  EXPECT_TRUE(closed_.empty()) << "Close is not told";
  EXPECT_EQ(connector_->connection_count(), 1u);
}

TEST_P(ConnectorTest, AResetIsARst) {
  PlainServer server;
  ConnectionHandle connection;
  const UniqueFd peer = ConnectTo(server, &connection);
  connector_->Close(connection, /*reset=*/true);
  ASSERT_TRUE(Await([&] { return connector_->connection_count() == 0; }));
  char byte;
  ssize_t got;
  do {
    got = recv(peer.get(), &byte, 1, 0);
  } while (got < 0 && errno == EINTR);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(errno, ECONNRESET);
}

}  // namespace
}  // namespace gyre::testing
