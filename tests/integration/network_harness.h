// A server in this process and blocking clients on loopback, for tests of
// engine/network over real rings.
#ifndef GYRE_TESTS_INTEGRATION_NETWORK_HARNESS_H_
#define GYRE_TESTS_INTEGRATION_NETWORK_HARNESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/mutex.h"
#include "engine/fs/file.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/socket_server.h"

namespace gyre::testing {

// `size` bytes that differ at every place and between seeds.
std::string Pattern(size_t size, uint64_t seed);
// `payload` behind its int32 length.
std::string Framed(absl::string_view payload);

// A slow reader's receive buffer. Not the smallest there is: below a few segments TCP drops
// what zero copy sends (a segment counts for its pages) and goes on at the pace of its timers.
constexpr int kSmallWindowBytes = 32 * 1024;

class Client {
 public:
  // CHECKs that it connects. `receive_buffer_bytes` > 0: a small window.
  explicit Client(uint16_t port, int receive_buffer_bytes = 0);
  // Connects a socket made beforehand (MakeSocket).
  Client(UniqueFd socket, uint16_t port);
  // Takes over a socket that is connected.
  explicit Client(UniqueFd connected);
  static UniqueFd MakeSocket();

  void Send(absl::string_view bytes);
  void SendFrame(absl::string_view payload) { Send(Framed(payload)); }
  // As much as the connection takes while nothing is read from it.
  void SendUntilFull(absl::string_view bytes);
  // From a thread of its own, so that the caller can read meanwhile.
  void SendInBackground(std::string bytes);
  // Exactly `size` bytes; fewer when the peer closed, reset, or 20 s went by.
  std::string Read(size_t size);
  // The payload of the next frame; "<closed>" when there is none.
  std::string ReadFrame();
  // True: the next thing is the connection's end.
  bool AtEnd();
  // True: bytes or the end can be read within `timeout_ms`.
  bool Readable(int timeout_ms);
  void FinishSending();
  void Close();
  // Closes with a reset.
  void Reset();
  uint16_t local_port() const;
  int fd() const { return fd_.get(); }

  Client(Client&& other) noexcept;
  ~Client();

 private:
  void SetOptions();

  UniqueFd fd_;
  std::unique_ptr<class BackgroundSend> background_;
};

// A handler made of a function.
class TestHandler final : public RequestHandler {
 public:
  explicit TestHandler(std::function<void(RequestPtr)> start) : start_(std::move(start)) {}
  void Start(RequestPtr request) override { start_(std::move(request)); }
  bool RunsInline(const Request&) const override { return runs_inline; }
  bool runs_inline = true;
  int LaneOf(const Request& request) const override {
    const auto lane = lane_of.load();
    return lane != nullptr ? lane(request) : 0;
  }
  bool RunsAlone(const Request& request) const override {
    const auto alone = runs_alone.load();
    return alone != nullptr && alone(request);
  }
  int16_t ApiOf(const Request& request) const override {
    const auto api = api_of.load();
    return api != nullptr ? api(request) : int16_t{-1};
  }
  // Set before the first client connects.
  std::atomic<int16_t (*)(const Request& request)> api_of{nullptr};
  std::atomic<int (*)(const Request& request)> lane_of{nullptr};
  std::atomic<bool (*)(const Request& request)> runs_alone{nullptr};

 private:
  const std::function<void(RequestPtr)> start_;
};

void ReplyFramed(RequestPtr&& request, absl::string_view payload);
inline void Echo(RequestPtr&& request) {
  ReplyFramed(std::move(request), std::string(request->frame()));
}

// Requests that a test keeps and answers later.
class Held {
 public:
  void Add(RequestPtr request);
  // Waits until `count` are held (20 s).
  bool Await(size_t count);
  std::vector<RequestPtr> TakeAll();

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<RequestPtr> requests_ ABSL_GUARDED_BY(mutex_);
};

class TestServer {
 public:
  // `disabled`: features of io_uring to do without, or "all".
  TestServer(const std::string& disabled, std::function<void(RequestPtr)> start,
             const std::function<void(SocketServerOptions&)>& change = {});

  uint16_t port() const { return server_->bound_endpoints()[0].port; }
  SocketServer& server() { return *server_; }
  TestHandler& handler() { return handler_; }
  const MetricRegistry& metrics() const { return metrics_; }
  int64_t Metric(absl::string_view name, absl::string_view labels = "") const;
  std::string Exposition() const { return metrics_.Exposition(); }
  // Waits until `metric` is at least `least` (20 s).
  bool AwaitMetric(absl::string_view name, int64_t least) const;
  bool AwaitConnections(int64_t count) const;

 private:
  MetricRegistry metrics_;
  TestHandler handler_;
  std::unique_ptr<SocketServer> server_;
};

// Whether a connect to the port finds nobody who listens.
bool Refuses(uint16_t port);

// A file that goes away with the object.
class TempFile {
 public:
  explicit TempFile(absl::string_view content);
  ~TempFile();
  const FileRef& file() const { return file_; }
  // Drops its pages from the page cache; false when they stayed.
  bool MakeCold();

 private:
  std::string path_;
  FileRef file_;
  int64_t size_bytes_;
};

// Calls `done` every millisecond until it is true; false after 20 s.
bool AwaitTrue(const std::function<bool()>& done);

}  // namespace gyre::testing

#endif  // GYRE_TESTS_INTEGRATION_NETWORK_HARNESS_H_
