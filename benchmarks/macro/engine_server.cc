// The engine beside its peers: frames of 12 bytes ask for a range of --file and are answered by
// an 80-byte header and the range, as benchmarks/peers/sendfile_server does; every other frame is
// echoed, as benchmarks/peers/*_echo do.
#include <cstdio>
#include <cstring>
#include <utility>

#include "benchmarks/sockets.h"
#include "engine/base/endian.h"
#include "engine/fs/file_system.h"
#include "engine/memory/buffer_allocator.h"
#include "engine/network/socket_server.h"
#include "engine/process/stop_signals.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

DEFINE_int32(port, 0, "TCP port on 127.0.0.1; 0 = the kernel chooses");
DEFINE_int32(num_network_threads, 1, "processors, each with its own ring");
DEFINE_int32(num_io_threads, 1, "handler threads (--dispatch=pool)");
DEFINE_string(dispatch, "inline", "where the handler runs: inline (on the processor) or pool");
DEFINE_string(accept_mode, "acceptor",
              "who accepts: acceptor (a thread) or reuseport (processors)");
DEFINE_string(file, "", "the file to serve ranges of");
DEFINE_string(file_transfer, "auto", "auto, sendfile, splice or copy");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");

namespace {

class Handler final : public gyre::RequestHandler {
 public:
  explicit Handler(gyre::FileRef file, int64_t file_bytes)
      : file_(std::move(file)), file_bytes_(file_bytes) {}

  void Start(gyre::RequestPtr request) override {
    if (request->frame().size() == gyre::bench::kRangeRequestBytes - sizeof(int32_t)) {
      Range(std::move(request));
    } else {
      Echo(std::move(request));
    }
  }
  bool RunsInline(const gyre::Request&) const override { return true; }
  // Before the first request.
  void SetBuffers(gyre::BufferAllocator* buffers) { buffers_ = buffers; }

 private:
  void Echo(gyre::RequestPtr request) const {
    const absl::string_view frame = request->frame();
    const auto size_bytes = static_cast<uint32_t>(frame.size());
    gyre::Buffer answer = buffers_->Allocate(sizeof(int32_t) + size_bytes);
    gyre::StoreBigEndian<int32_t>(answer.data(), static_cast<int32_t>(size_bytes));
    std::memcpy(answer.data() + sizeof(int32_t), frame.data(), size_bytes);
    request.Reply(gyre::NetworkSend(std::move(answer)));
  }

  void Range(gyre::RequestPtr request) const {
    const char* frame = request->frame().data();
    const auto position = gyre::LoadBigEndian<int64_t>(frame);
    const auto size_bytes = gyre::LoadBigEndian<int32_t>(frame + sizeof(int64_t));
    if (position < 0 || size_bytes < 0 || position > file_bytes_ - size_bytes) {
      return request.CloseConnection("a range outside the file");
    }
    gyre::Buffer header = buffers_->Allocate(gyre::bench::kRangeHeaderBytes);
    std::memset(header.data(), 0, header.size_bytes());
    gyre::StoreBigEndian<int32_t>(
        header.data(),
        static_cast<int32_t>(gyre::bench::kRangeHeaderBytes - sizeof(int32_t)) + size_bytes);
    gyre::NetworkSend send(std::move(header));
    send.Append(gyre::FileSlice{file_, position, size_bytes});
    request.Reply(std::move(send));
  }

  const gyre::FileRef file_;
  const int64_t file_bytes_;
  gyre::BufferAllocator* buffers_ = nullptr;
};

absl::Status Run() {
  const gyre::StopSignals signals;
  gyre::FileRef file;
  int64_t file_bytes = 0;
  if (!FLAGS_file.empty()) {
    absl::StatusOr<gyre::FileRef> opened =
        gyre::FileSystem::Real().Open(FLAGS_file, gyre::OpenMode::kRead);
    if (!opened.ok()) return opened.status();
    file = *std::move(opened);
    absl::StatusOr<int64_t> size = file->SizeBytes();
    if (!size.ok()) return size.status();
    file_bytes = *size;
  }
  gyre::SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = {"BENCH", "127.0.0.1", static_cast<uint16_t>(FLAGS_port)};
  options.num_network_threads = FLAGS_num_network_threads;
  options.num_io_threads = FLAGS_num_io_threads;
  options.sockets.congestion_control = FLAGS_congestion;
  options.sockets.listen_backlog_size = 1024;  // As the peers have.
  if (!gyre::ParseAcceptMode(FLAGS_accept_mode, &options.accept_mode) ||
      !gyre::ParseDispatch(FLAGS_dispatch, &options.processor.connection.dispatch) ||
      !gyre::ParseFileTransfer(FLAGS_file_transfer, &options.processor.connection.file_transfer)) {
    return absl::InvalidArgumentError("unknown --accept_mode, --dispatch or --file_transfer");
  }

  Handler handler(std::move(file), file_bytes);
  gyre::SocketServer server(std::move(options), handler);
  handler.SetBuffers(&server.response_buffers());
  if (absl::Status status = server.Start(); !status.ok()) return status;
  std::printf("engine_server: listening on 127.0.0.1:%d\n", server.bound_endpoints()[0].port);
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
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "engine_server: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
