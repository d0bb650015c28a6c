// A key-value server on the engine in one page, for what the other two leave out: handlers on
// threads of their own, an answer that comes later (the purgatory and its timer), lanes, a
// privileged listener, metrics and the admin pages, an option that changes while it runs, and
// the order in which all of it ends. Frames are text behind an int32 length:
//
//   set KEY VALUE   +
//   get KEY         =VALUE, or - when there is none
//   wait MS KEY     the same, as soon as there is one, and after MS milliseconds at the latest
//   keys            =KEY KEY …, or !busy when there is no memory for so many
//
// and on the control listener, which answers while the other is busy, count.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/admin/admin_server.h"
#include "engine/base/endian.h"
#include "engine/base/ref_ptr.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/socket_server.h"
#include "engine/process/stop_signals.h"
#include "engine/purgatory/delayed_operation_purgatory.h"
#include "engine/timer/timer.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

DEFINE_int32(port, 0, "TCP port on 127.0.0.1, as the two below; 0 = the kernel chooses");
DEFINE_int32(control_port, 0, "of the control listener");
DEFINE_int32(admin_port, 0, "of the admin pages");

namespace {

constexpr uint32_t kLengthBytes = sizeof(int32_t);
enum Api : int16_t { kSet, kGet, kWait, kKeys, kUnknown = -1 };  // in metrics, by api_names
enum Lane { kWrites, kReads };                                   // by options.lanes

class Store {
 public:
  void Set(absl::string_view key, gyre::Buffer value) {
    gyre::MutexLock lock(mutex_);
    values_[std::string(key)] = std::move(value);
  }
  std::optional<gyre::Buffer> Get(absl::string_view key) const {
    gyre::MutexLock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;  // a reference: values are sent from where they lie
  }
  size_t size() const {
    gyre::MutexLock lock(mutex_);
    return values_.size();
  }
  // A whole answer. It may be large, so there may be no room for it in memory_limit_bytes.
  std::optional<gyre::Buffer> ListKeys(gyre::BufferAllocator& buffers) const {
    gyre::MutexLock lock(mutex_);
    size_t size_bytes = 1;
    for (const auto& [key, value] : values_) size_bytes += key.size() + 1;
    std::optional<gyre::Buffer> answer =
        buffers.TryAllocate(static_cast<uint32_t>(kLengthBytes + size_bytes));
    if (!answer.has_value()) return std::nullopt;
    gyre::StoreBigEndian<int32_t>(answer->data(), static_cast<int32_t>(size_bytes));
    char* to = answer->data() + kLengthBytes;
    *to++ = '=';
    for (const auto& [key, value] : values_) {
      to = std::copy(key.begin(), key.end(), to);
      *to++ = ' ';
    }
    return answer;
  }

 private:
  mutable gyre::Mutex mutex_;
  absl::flat_hash_map<std::string, gyre::Buffer> values_ ABSL_GUARDED_BY(mutex_);
};

// `text` behind the length of all, and `value` behind that.
gyre::NetworkSend Answer(absl::string_view text, gyre::Buffer value = {}) {
  gyre::Buffer head = gyre::Buffer::Allocate(static_cast<uint32_t>(kLengthBytes + text.size()));
  const size_t size_bytes = text.size() + value.size_bytes();
  gyre::StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(size_bytes));
  std::memcpy(head.data() + kLengthBytes, text.data(), text.size());
  gyre::NetworkSend send(std::move(head));
  send.Append(std::move(value));
  return send;
}
gyre::NetworkSend Answer(std::optional<gyre::Buffer> value) {
  return value.has_value() ? Answer("=", *std::move(value)) : Answer("-");
}

// One "wait": the purgatory looks again whenever its key is set, and at its deadline.
class Wait final : public gyre::DelayedOperation {
 public:
  Wait(const Store& store, std::string key, int64_t timeout_ms, gyre::RequestPtr request)
      : DelayedOperation(timeout_ms),
        store_(store),
        key_(std::move(key)),
        request_(std::move(request)) {}

 private:
  bool TryComplete() override { return store_.Get(key_).has_value() && ForceComplete(); }
  void OnComplete() override { request_.Reply(Answer(store_.Get(key_))); }
  void OnDrop() override { request_.Reply(Answer("!stopping")); }

  const Store& store_;
  const std::string key_;
  gyre::RequestPtr request_;
};

gyre::WatchKey WatchKeyOf(absl::string_view key) {
  return {.kind = 0, .id = absl::Hash<absl::string_view>()(key)};
}

class KvHandler final : public gyre::RequestHandler {
 public:
  explicit KvHandler(Store& store) : store_(store) {}
  // Before the server starts.
  void SetServer(gyre::SocketServer& server, gyre::DelayedOperationPurgatory& purgatory) {
    buffers_ = &server.response_buffers();
    purgatory_ = &purgatory;
  }

  int LaneOf(const gyre::Request& request) const override {
    return absl::StartsWith(request.frame(), "set ") ? kWrites : kReads;
  }
  // On a handler thread.
  void Start(gyre::RequestPtr request) override {
    const std::vector<absl::string_view> words =
        absl::StrSplit(request->frame(), absl::MaxSplits(' ', 2));
    int32_t timeout_ms = 0;
    if (words[0] == "set" && words.size() == 3) {
      request->api = kSet;
      store_.Set(words[1], gyre::Buffer::CopyOf(words[2]));
      purgatory_->CheckAndComplete(WatchKeyOf(words[1]));
      request.Reply(Answer("+"));
    } else if (words[0] == "get" && words.size() == 2) {
      request->api = kGet;
      request.Reply(Answer(store_.Get(words[1])));
    } else if (words[0] == "wait" && words.size() == 3 && absl::SimpleAtoi(words[1], &timeout_ms) &&
               timeout_ms >= 0) {
      request->api = kWait;
      const std::string key(words[2]);
      request->ReleaseFrame();  // nobody's memory while it waits
      purgatory_->TryCompleteElseWatch(
          gyre::MakeRef<Wait>(store_, key, timeout_ms, std::move(request)), {WatchKeyOf(key)});
    } else if (words[0] == "keys" && words.size() == 1) {
      request->api = kKeys;
      std::optional<gyre::Buffer> keys = store_.ListKeys(*buffers_);
      request.Reply(keys.has_value() ? gyre::NetworkSend(*std::move(keys)) : Answer("!busy"));
    } else {
      request.CloseConnection("not a request of kv_server");
    }
  }

 private:
  Store& store_;
  gyre::BufferAllocator* buffers_ = nullptr;
  gyre::DelayedOperationPurgatory* purgatory_ = nullptr;
};

class ControlHandler final : public gyre::RequestHandler {
 public:
  explicit ControlHandler(Store& store) : store_(store) {}
  void Start(gyre::RequestPtr request) override {
    if (request->frame() != "count") return request.CloseConnection("not a control request");
    request.Reply(Answer(absl::StrCat("=", store_.size())));
  }

 private:
  Store& store_;
};

// What the admin pages show, and the one flag they change.
class KvAdmin final : public gyre::AdminSource {
 public:
  KvAdmin(gyre::SocketServer& server, const gyre::MetricRegistry& metrics)
      : server_(server), metrics_(metrics) {}
  void OnDraining() { draining_.store(true, std::memory_order_relaxed); }

  std::string Metrics() override { return metrics_.Exposition(); }
  absl::Status Health() override { return server_.Health(); }
  absl::Status Ready() override {
    if (draining_.load(std::memory_order_relaxed)) return absl::UnavailableError("draining");
    return absl::OkStatus();
  }
  gyre::AdminVersion Version() override { return {.program = "kv_server", .version = "1"}; }
  std::vector<gyre::AdminFlag> Flags() override {
    gyre::MutexLock lock(mutex_);
    const int64_t value = server_.connection_options().slow_request_log_ms;
    return {{.name = kSlowLog, .value = absl::StrCat(value), .unit = "ms", .live = true}};
  }
  absl::Status SetFlag(absl::string_view name, absl::string_view value) override {
    if (name != kSlowLog) return absl::NotFoundError(absl::StrCat("there is no flag ", name));
    gyre::MutexLock lock(mutex_);  // two admin handlers, and one may set options at a time
    gyre::ConnectionOptions options = server_.connection_options();
    if (!absl::SimpleAtoi(value, &options.slow_request_log_ms)) {
      return absl::InvalidArgumentError(absl::StrCat(kSlowLog, " is a number"));
    }
    return server_.SetConnectionOptions(options);
  }
  std::vector<gyre::ConnectionInfo> Connections(size_t max_count, int64_t* open_count) override {
    gyre::MutexLock lock(mutex_);
    *open_count = server_.connection_count();
    return server_.ListConnections(max_count, /*timeout_ms=*/2'000);
  }

 private:
  static constexpr char kSlowLog[] = "slow_request_log_ms";
  gyre::SocketServer& server_;
  const gyre::MetricRegistry& metrics_;
  std::atomic<bool> draining_{false};
  gyre::Mutex mutex_;
};

gyre::SocketServerOptions Options(gyre::RequestHandler& control, gyre::MetricRegistry& metrics) {
  gyre::SocketServerOptions options;
  options.listeners.resize(2);
  options.listeners[0].endpoint = {"KV", "127.0.0.1", static_cast<uint16_t>(FLAGS_port)};
  options.listeners[1].endpoint = {"CONTROL", "127.0.0.1",
                                   static_cast<uint16_t>(FLAGS_control_port)};
  options.listeners[1].handler = &control;
  options.listeners[1].privileged = true;
  options.num_network_threads = 1;
  options.num_io_threads = 2;
  options.lanes = {{"writes", 2}, {"reads", 1}};
  options.memory_limit_bytes = 256 << 20;
  options.processor.connection.socket_request_max_bytes = 1 << 20;
  options.metrics = &metrics;
  options.api_names = {"Set", "Get", "Wait", "Keys"};
  return options;
}

absl::Status Run(const gyre::StopSignals& signals) {
  for (const int32_t port : {FLAGS_port, FLAGS_control_port, FLAGS_admin_port}) {
    if (port < 0 || port > 65535) {
      return absl::InvalidArgumentError("a port is a number from 0 to 65535");
    }
  }
  // In the order in which they must outlive each other.
  const gyre::Clock& clock = gyre::Clock::Real();
  gyre::MetricRegistry metrics;
  Store store;
  KvHandler handler(store);
  ControlHandler control(store);
  gyre::Timer timer(clock);
  gyre::SocketServer server(Options(control, metrics), handler);
  gyre::DelayedOperationPurgatory purgatory(clock, timer, server.continuations());
  gyre::ThreadRunner timer_thread("timer", timer, timer.wakeup(), clock);
  KvAdmin pages(server, metrics);
  gyre::AdminServer admin(
      {.endpoint = {"ADMIN", "127.0.0.1", static_cast<uint16_t>(FLAGS_admin_port)}}, pages);

  handler.SetServer(server, purgatory);
  GYRE_RETURN_IF_ERROR(timer_thread.Start());
  GYRE_RETURN_IF_ERROR(server.Start());
  const absl::Status status = admin.Start();
  if (status.ok()) {
    std::printf("kv_server: listening on 127.0.0.1:%d, control on %d, admin pages on %d\n",
                server.bound_endpoints()[0].port, server.bound_endpoints()[1].port,
                admin.endpoint().port);
    std::fflush(stdout);
    signals.Wait();
  }

  pages.OnDraining();
  server.BeginDrain();               // no request is taken from here on but what has come
  purgatory.Shutdown();              // answers what waits, or the drain would wait for it
  server.Drain(5'000);               // the last answers leave
  admin.Stop();                      // nobody asks the server anything more
  server.Stop();                     // no handler runs any more
  timer_thread.Stop();               // nor does anybody else who answers or posts
  server.continuations().DropAll();  // what was posted and no handler ran
  return status;                     // and so the purgatory may go, and the server after it
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  const gyre::StopSignals signals;  // before any thread
  const absl::Status status = Run(signals);
  if (!status.ok()) {
    std::fprintf(stderr, "kv_server: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
