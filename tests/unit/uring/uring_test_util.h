// What the ring tests share: feature sets to run under, sockets, files.
//
// Threads: the test's.
#ifndef GYRE_TESTS_UNIT_URING_URING_TEST_UTIL_H_
#define GYRE_TESTS_UNIT_URING_URING_TEST_UTIL_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "engine/fs/file_system.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "gtest/gtest.h"

namespace gyre::uring {

// A value of --uring_disable, and a word for test names.
struct Rung {
  const char* name;
  const char* disabled;
};
inline constexpr Rung kRungs[] = {
    {"Everything", ""},
    {"NoDefer", "defer_taskrun"},
    {"NoSingleIssuer", "single_issuer,min_wait"},
    {"OneShotReceive", "multishot_recv,send_zc_report"},
    {"EventfdWake", "msg_ring_wake"},
    {"Kernel519", "all"},
};
inline std::string RungName(const ::testing::TestParamInfo<Rung>& info) { return info.param.name; }

inline Features FeaturesOf(const Rung& rung) {
  const absl::StatusOr<FeatureSet> hidden = ParseDisabled(rung.disabled);
  EXPECT_TRUE(hidden.ok()) << hidden.status();
  absl::StatusOr<Features> features = ProbeFeatures(*hidden);
  EXPECT_TRUE(features.ok()) << features.status();
  return *std::move(features);
}

inline std::unique_ptr<Ring> MakeRing(const Rung& rung, const RingOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<Ring>> ring = CreateUringRing(FeaturesOf(rung), options);
  EXPECT_TRUE(ring.ok()) << ring.status();
  return *std::move(ring);
}

struct TcpListener {
  UniqueFd fd;
  sockaddr_in address = {};

  TcpListener() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd.get(), 64), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  }
  UniqueFd Connect() const {
    UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    return client;
  }
};

// `server` is as the ring's accepted sockets are: non-blocking.
struct TcpPair {
  UniqueFd client;
  UniqueFd server;

  TcpPair() {
    const TcpListener listener;
    client = listener.Connect();
    server.Reset(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(server.valid());
  }
  void ClientSends(const std::string& bytes) const {
    EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string ClientReads(size_t size_bytes) const {
    std::string bytes(size_bytes, '\0');
    EXPECT_EQ(recv(client.get(), bytes.data(), size_bytes, MSG_WAITALL),
              static_cast<ssize_t>(size_bytes));
    return bytes;
  }
};

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* base = std::getenv("TEST_TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/gyre.XXXXXX";
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TemporaryDirectory() { FileSystem::Real().RemoveRecursively(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline FileRef NewFile(const TemporaryDirectory& directory, const std::string& content) {
  const absl::StatusOr<FileRef> file =
      FileSystem::Real().Open(directory.path() + "/file", OpenMode::kCreate);
  EXPECT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->WriteAll(0, content.data(), content.size()).ok());
  return *file;
}

}  // namespace gyre::uring

#endif  // GYRE_TESTS_UNIT_URING_URING_TEST_UTIL_H_
