// A file server on the engine in one page: GET and HEAD of the files that --directory held when
// it started. An answer is a head in memory and a slice of the file, which the engine sends from
// the page cache; a handler never reads. HTTP itself is engine/admin's. A path is looked up
// among the names that were there, so there is nothing to climb out of the directory with.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/admin/http_decoder.h"
#include "engine/admin/http_request.h"
#include "engine/admin/http_response.h"
#include "engine/base/clock.h"
#include "engine/fs/file_system.h"
#include "engine/network/socket_server.h"
#include "engine/process/stop_signals.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

DEFINE_int32(port, 0, "TCP port on 127.0.0.1; 0 = the kernel chooses");
DEFINE_string(directory, "", "whose files are served; those in directories below it are not");
DEFINE_int32(num_network_threads, 1, "processors, each with its own ring");
DEFINE_string(socket_congestion_control, "", "TCP_CONGESTION; empty = the kernel's default");

namespace {

const gyre::HttpLimits kLimits;

struct ServedFile {
  gyre::FileRef file;
  int64_t size_bytes = 0;
  std::string head;  // behind the Date
};

absl::string_view ContentType(absl::string_view name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".txt")) return "text/plain; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css";
  if (absl::EndsWith(name, ".js")) return "text/javascript";
  if (absl::EndsWith(name, ".json")) return "application/json";
  if (absl::EndsWith(name, ".png")) return "image/png";
  return "application/octet-stream";
}

// The beginning of every head; made anew once a second on each thread.
absl::string_view StatusAndDate(int64_t unix_seconds) {
  thread_local int64_t made_for = -1;
  thread_local std::string text;
  if (made_for != unix_seconds) {
    made_for = unix_seconds;
    text = absl::StrCat("HTTP/1.1 200 OK\r\nDate: ",
                        absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT",
                                         absl::FromUnixSeconds(unix_seconds), absl::UTCTimeZone()));
  }
  return text;
}

class FileHandler final : public gyre::RequestHandler {
 public:
  // Before the server starts.
  void SetBuffers(gyre::BufferAllocator* buffers) { buffers_ = buffers; }
  absl::Status Open(const std::string& directory) {
    gyre::FileSystem& files = gyre::FileSystem::Real();
    absl::StatusOr<std::vector<std::string>> names = files.List(directory);
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      const std::string path = absl::StrCat(directory, "/", name);
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(path, ignored)) continue;
      absl::StatusOr<gyre::FileRef> file = files.Open(path, gyre::OpenMode::kRead);
      if (!file.ok()) return file.status();
      absl::StatusOr<int64_t> size = (*file)->SizeBytes();
      if (!size.ok()) return size.status();
      const std::string head =
          absl::StrCat("\r\nContent-Type: ", ContentType(name), "\r\nContent-Length: ", *size,
                       "\r\nX-Content-Type-Options: nosniff\r\nConnection: ");
      files_.try_emplace("/" + name, ServedFile{*std::move(file), *size, head});
    }
    return absl::OkStatus();
  }

  bool RunsInline(const gyre::Request&) const override { return true; }
  void Start(gyre::RequestPtr request) override {
    const gyre::HttpRequest http = gyre::ParseHttpRequest(request->frame(), kLimits);
    const int64_t now = gyre::Clock::Real().WallTimeMs() / 1000;
    gyre::NetworkSend send;
    if (http.state == gyre::HttpRequest::State::kNeedMore) {
      send = Refusal(408, http, now);
    } else if (http.refusal != 0) {
      send = Refusal(http.refusal, http, now);
    } else if (http.method != "GET" && http.method != "HEAD") {
      send = Refusal(405, http, now);
    } else if (const auto found = files_.find(http.path); found == files_.end()) {
      send = Refusal(404, http, now);
    } else {
      send = Answer(found->second, http, now);
    }
    if (http.keep_alive) return request.Reply(std::move(send));
    request.ReplyThenClose(std::move(send));
  }

 private:
  gyre::NetworkSend Answer(const ServedFile& served, const gyre::HttpRequest& http,
                           int64_t now) const {
    const std::string head = absl::StrCat(StatusAndDate(now), served.head,
                                          http.keep_alive ? "keep-alive\r\n\r\n" : "close\r\n\r\n");
    gyre::Buffer buffer = buffers_->Allocate(static_cast<uint32_t>(head.size()));
    std::memcpy(buffer.data(), head.data(), head.size());
    gyre::NetworkSend send(std::move(buffer));
    if (http.method == "GET") send.Append(gyre::FileSlice{served.file, 0, served.size_bytes});
    return send;
  }
  static gyre::NetworkSend Refusal(int status, const gyre::HttpRequest& http, int64_t now) {
    gyre::HttpResponse response;
    response.status = status;
    response.body = absl::StrCat(status, " ", gyre::HttpReason(status), "\n");
    if (status == 405) response.allow = "GET, HEAD";
    return gyre::NetworkSend(
        gyre::EncodeHttpResponse(response, http.method == "HEAD", http.keep_alive, now));
  }

  gyre::BufferAllocator* buffers_ = nullptr;
  absl::flat_hash_map<std::string, ServedFile> files_;  // by path; constant once serving
};

absl::Status Run(const gyre::StopSignals& signals) {
  if (FLAGS_port < 0 || FLAGS_port > 65535) {
    return absl::InvalidArgumentError("--port is a number from 0 to 65535");
  }
  if (FLAGS_directory.empty()) return absl::InvalidArgumentError("--directory is missing");
  FileHandler handler;
  if (absl::Status status = handler.Open(FLAGS_directory); !status.ok()) return status;
  const gyre::HttpDecoder decoder(kLimits);
  gyre::SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = {"HTTP", "127.0.0.1", static_cast<uint16_t>(FLAGS_port)};
  options.listeners[0].frame_decoder = &decoder;
  options.num_network_threads = FLAGS_num_network_threads;
  options.sockets.congestion_control = FLAGS_socket_congestion_control;
  options.sockets.listen_backlog_size = 1024;
  options.processor.connection.dispatch = gyre::Dispatch::kInline;
  options.processor.connection.frame_timeout_ms = 10'000;
  options.processor.connection.socket_request_max_bytes = kLimits.max_request_bytes();

  gyre::SocketServer server(std::move(options), handler);
  handler.SetBuffers(&server.response_buffers());
  if (absl::Status status = server.Start(); !status.ok()) return status;
  std::printf("http_file_server: listening on 127.0.0.1:%d\n", server.bound_endpoints()[0].port);
  std::fflush(stdout);

  signals.Wait();
  server.Drain(/*deadline_ms=*/5'000);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  google::InitGoogleLogging(argv[0]);
  FLAGS_logtostderr = true;
  const gyre::StopSignals signals;  // before any thread
  const absl::Status status = Run(signals);
  if (!status.ok()) {
    std::fprintf(stderr, "http_file_server: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
