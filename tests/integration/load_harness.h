// Servers that lie, and gyre_load run against them in this process.
#ifndef GYRE_TESTS_INTEGRATION_LOAD_HARNESS_H_
#define GYRE_TESTS_INTEGRATION_LOAD_HARNESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/mutex.h"
#include "proto/wire/error_code.h"
#include "tests/integration/network_harness.h"
#include "tools/load/result.h"

namespace gyre::load {

// As from the command line, but for --brokers, which is 127.0.0.1:`port`.
absl::StatusOr<RunResult> RunLoad(uint16_t port, std::vector<std::string> flags);

// A plain blocking server on one thread, one connection at a time, for what the engine
// would never do.
class PlainPeer {
 public:
  // `serve` has the accepted socket; closed after it returns.
  explicit PlainPeer(std::function<void(int fd)> serve);
  ~PlainPeer();
  uint16_t port() const { return port_; }

  // Reads one frame's payload; false at the end.
  static bool ReadFrame(int fd, std::string* payload);
  static bool Write(int fd, absl::string_view bytes);

 private:
  void Run();

  const std::function<void(int fd)> serve_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// An echo server: `answer` turns the n-th frame into the frames that go back.
std::function<void(int fd)> EchoWith(
    std::function<std::vector<std::string>(int64_t n, const std::string& frame)> answer);

// A broker of one node that keeps record batches in memory and treats the n-th batch
// that it is given as told.
class LyingBroker {
 public:
  enum class Treatment : uint8_t {
    kKeep,
    kDrop,         // acknowledged, and gone
    kDuplicate,    // kept twice
    kSwap,         // kept in the place of the batch before, and that one in its
    kFlip,         // one byte changed
    kFlipAndSeal,  // one byte changed, and the batch's CRC made to fit
    kCloseBefore,  // the connection is closed instead, without keeping it
    kCloseAfter,   // kept, and then the connection is closed without an answer
    kStall,        // a second passes first
  };
  explicit LyingBroker(std::function<Treatment(int64_t n)> treat);

  uint16_t port() const { return port_.load(); }
  int64_t kept_count();

  // Set before the run.
  std::atomic<bool> offers_identities{false};
  std::atomic<ErrorCode> create_topic_error{ErrorCode::kNone};
  // Changes the bytes of answers to Produce and Fetch.
  void set_garble(std::function<void(std::string* frame)> garble);

 private:
  struct Partition {
    std::map<int64_t, std::string> batches;  // by base offset
    int64_t end_offset = 0;
  };

  void Serve(RequestPtr request);
  template <typename Response>
  void Reply(RequestPtr request, const Response& response, int32_t correlation_id, int16_t version);
  void OnProduce(RequestPtr request, absl::string_view body, int32_t correlation_id);
  void OnFetch(RequestPtr request, absl::string_view body, int32_t correlation_id);
  int64_t Keep(Partition& partition, std::string batch, Treatment treatment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<Treatment(int64_t)> treat_;
  Mutex mutex_;
  std::vector<Partition> partitions_ ABSL_GUARDED_BY(mutex_);
  int64_t batch_count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t kept_count_ ABSL_GUARDED_BY(mutex_) = 0;
  Mutex garble_mutex_;
  std::function<void(std::string*)> garble_ ABSL_GUARDED_BY(garble_mutex_);
  std::atomic<uint16_t> port_{0};
  std::unique_ptr<testing::TestServer> server_;
};

}  // namespace gyre::load

#endif  // GYRE_TESTS_INTEGRATION_LOAD_HARNESS_H_
