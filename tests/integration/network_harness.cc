#include "tests/integration/network_harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/fs/file_system.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "glog/logging.h"

namespace gyre::testing {

std::string Pattern(size_t size, uint64_t seed) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(&bytes[at], &state, 8);
  }
  for (; at < size; ++at) bytes[at] = static_cast<char>(at);
  return bytes;
}

std::string Framed(absl::string_view payload) {
  std::string bytes(sizeof(int32_t), '\0');
  StoreBigEndian<int32_t>(bytes.data(), static_cast<int32_t>(payload.size()));
  bytes.append(payload.data(), payload.size());
  return bytes;
}

bool AwaitTrue(const std::function<bool()>& done) {
  for (int i = 0; i < 20'000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// --- Client ----------------------------------------------------------------------

class BackgroundSend {
 public:
  BackgroundSend(int fd, std::string bytes)
      : thread_([fd, bytes = std::move(bytes)] {
          size_t sent = 0;
          while (sent < bytes.size()) {
            const ssize_t n = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return;
            sent += static_cast<size_t>(n);
          }
        }) {}
  ~BackgroundSend() { thread_.join(); }

 private:
  std::thread thread_;
};

namespace {

UniqueFd WithReceiveBuffer(UniqueFd socket, int bytes) {
  if (bytes > 0) setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  return socket;
}

}  // namespace

namespace {

int ConnectTo(int fd, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

}  // namespace

bool Refuses(uint16_t port) {
  const UniqueFd fd = Client::MakeSocket();
  return ConnectTo(fd.get(), port) != 0 && errno == ECONNREFUSED;
}

UniqueFd Client::MakeSocket() {
  UniqueFd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PCHECK(made.valid());
  return made;
}

Client::Client(uint16_t port, int receive_buffer_bytes)
    : Client(WithReceiveBuffer(MakeSocket(), receive_buffer_bytes), port) {}

Client::Client(UniqueFd socket, uint16_t port) : fd_(std::move(socket)) {
  PCHECK(ConnectTo(fd_.get(), port) == 0);
  SetOptions();
}

Client::Client(UniqueFd connected) : fd_(std::move(connected)) { SetOptions(); }

void Client::SetOptions() {
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const timeval timeout = {20, 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

Client::Client(Client&& other) noexcept = default;

Client::~Client() {
  if (background_ != nullptr) {
    shutdown(fd_.get(), SHUT_RDWR);
    background_.reset();
  }
}

void Client::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Client::SendUntilFull(absl::string_view bytes) {
  while (!bytes.empty()) {
    pollfd entry = {fd_.get(), POLLOUT, 0};
    if (poll(&entry, 1, 200) == 0) return;
    const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Client::SendInBackground(std::string bytes) {
  background_.reset();
  background_ = std::make_unique<BackgroundSend>(fd_.get(), std::move(bytes));
}

std::string Client::Read(size_t size) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const ssize_t n = recv(fd_.get(), &bytes[got], size - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

std::string Client::ReadFrame() {
  const std::string prefix = Read(sizeof(int32_t));
  if (prefix.size() < sizeof(int32_t)) return "<closed>";
  const auto size = static_cast<size_t>(LoadBigEndian<int32_t>(prefix.data()));
  std::string payload = Read(size);
  return payload.size() == size ? payload : "<closed>";
}

bool Client::AtEnd() {
  char byte;
  ssize_t n;
  do {
    n = recv(fd_.get(), &byte, 1, 0);
  } while (n < 0 && errno == EINTR);
  return n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE));
}

bool Client::Readable(int timeout_ms) {
  pollfd entry = {fd_.get(), POLLIN, 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

void Client::FinishSending() { shutdown(fd_.get(), SHUT_WR); }

void Client::Close() { fd_.Reset(); }

void Client::Reset() {
  const linger now = {1, 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  fd_.Reset();
}

uint16_t Client::local_port() const {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// --- handlers ----------------------------------------------------------------------

void ReplyFramed(RequestPtr&& request, absl::string_view payload) {
  request.Reply(NetworkSend(Buffer::CopyOf(Framed(payload))));
}

void Held::Add(RequestPtr request) {
  MutexLock lock(mutex_);
  requests_.push_back(std::move(request));
  changed_.NotifyAll();
}

bool Held::Await(size_t count) {
  MutexLock lock(mutex_);
  for (int i = 0; i < 200 && requests_.size() < count; ++i) {
    changed_.WaitFor(mutex_, 100'000'000);
  }
  return requests_.size() >= count;
}

std::vector<RequestPtr> Held::TakeAll() {
  MutexLock lock(mutex_);
  return std::exchange(requests_, {});
}

// --- TestServer ---------------------------------------------------------------------

TestServer::TestServer(const std::string& disabled, std::function<void(RequestPtr)> start,
                       const std::function<void(SocketServerOptions&)>& change)
    : handler_(std::move(start)) {
  const absl::StatusOr<uring::FeatureSet> hidden = uring::ParseDisabled(disabled);
  CHECK(hidden.ok()) << hidden.status();
  const absl::StatusOr<uring::Features> features = uring::ProbeFeatures(*hidden);
  CHECK(features.ok()) << features.status();
  SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = *ParseEndpoint("TEST://127.0.0.1:0");
  options.num_network_threads = 2;
  options.num_io_threads = 2;
  options.metrics = &metrics_;
  options.slab_bytes = 8 << 20;
  options.api_names = {"Echo"};
  options.ring_factory = [features = *features](absl::string_view) {
    return uring::CreateUringRing(features, uring::RingOptions());
  };
  if (change) change(options);
  server_ = std::make_unique<SocketServer>(std::move(options), handler_);
  const absl::Status status = server_->Start();
  CHECK(status.ok()) << status;
}

int64_t TestServer::Metric(absl::string_view name, absl::string_view labels) const {
  return metrics_.Value(name, labels).value_or(-1);
}

bool TestServer::AwaitMetric(absl::string_view name, int64_t least) const {
  return AwaitTrue([&] { return Metric(name) >= least; });
}

bool TestServer::AwaitConnections(int64_t count) const {
  return AwaitTrue([&] { return server_->connection_count() == count; });
}

// --- TempFile -------------------------------------------------------------------------

TempFile::TempFile(absl::string_view content) : size_bytes_(static_cast<int64_t>(content.size())) {
  const char* directory = std::getenv("TEST_TMPDIR");
  path_ = absl::StrCat(directory != nullptr ? directory : "/tmp", "/network_test_XXXXXX");
  const int fd = mkstemp(path_.data());
  PCHECK(fd >= 0) << path_;
  close(fd);
  absl::StatusOr<FileRef> file = FileSystem::Real().Open(path_, OpenMode::kReadWrite);
  CHECK(file.ok()) << file.status();
  file_ = *std::move(file);
  CHECK(file_->WriteAll(0, content.data(), content.size()).ok());
}

TempFile::~TempFile() { unlink(path_.c_str()); }

bool TempFile::MakeCold() {
  fsync(file_->fd());
  posix_fadvise(file_->fd(), 0, 0, POSIX_FADV_DONTNEED);
  return !file_->IsResident(0, static_cast<size_t>(size_bytes_));
}

}  // namespace gyre::testing
