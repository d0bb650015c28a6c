// A server on the engine in one page: it answers every int32-length-prefixed frame
// with the same frame. All an engine user writes is a RequestHandler and a main.
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "engine/process/stop_signals.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

DEFINE_int32(port, 0, "TCP port on 127.0.0.1; 0 = the kernel chooses");
DEFINE_int32(num_network_threads, 1, "processors, each with its own ring");
DEFINE_int32(num_io_threads, 1, "handler threads (--dispatch=pool)");
DEFINE_string(dispatch, "inline", "where the handler runs: inline (on the processor) or pool");
DEFINE_string(socket_congestion_control, "", "TCP_CONGESTION; empty = the kernel's default");
DEFINE_string(uring_disable, "", "io_uring features to do without, or \"all\"");

namespace {

class EchoHandler final : public gyre::RequestHandler {
 public:
  // Before the server starts.
  void SetBuffers(gyre::BufferAllocator* buffers) { buffers_ = buffers; }
  void Start(gyre::RequestPtr request) override {
    const absl::string_view frame = request->frame();
    const auto size_bytes = static_cast<uint32_t>(frame.size());
    // A small frame is copied behind its length; a large one is sent from where it
    // was received.
    const uint32_t copied_bytes = size_bytes <= 4096 ? size_bytes : 0;
    gyre::Buffer head = buffers_->Allocate(sizeof(int32_t) + copied_bytes);
    gyre::StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(size_bytes));
    std::memcpy(head.data() + sizeof(int32_t), frame.data(), copied_bytes);
    gyre::NetworkSend send(std::move(head));
    if (copied_bytes < size_bytes) send.Append(request->frame_buffer());
    request.Reply(std::move(send));
  }
  bool RunsInline(const gyre::Request&) const override { return true; }

 private:
  gyre::BufferAllocator* buffers_ = nullptr;
};

absl::Status Run(const gyre::StopSignals& signals) {
  if (FLAGS_port < 0 || FLAGS_port > 65535) {
    return absl::InvalidArgumentError("--port is a number from 0 to 65535");
  }
  gyre::SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = {"ECHO", "127.0.0.1", static_cast<uint16_t>(FLAGS_port)};
  options.num_network_threads = FLAGS_num_network_threads;
  options.num_io_threads = FLAGS_num_io_threads;
  options.sockets.congestion_control = FLAGS_socket_congestion_control;
  if (!gyre::ParseDispatch(FLAGS_dispatch, &options.processor.connection.dispatch)) {
    return absl::InvalidArgumentError("--dispatch is \"inline\" or \"pool\"");
  }
  absl::StatusOr<gyre::uring::FeatureSet> hidden = gyre::uring::ParseDisabled(FLAGS_uring_disable);
  if (!hidden.ok()) return hidden.status();
  absl::StatusOr<gyre::uring::Features> features = gyre::uring::ProbeFeatures(*hidden);
  if (!features.ok()) return features.status();
  options.ring_factory = [&features](absl::string_view) {
    return gyre::uring::CreateUringRing(*features, gyre::uring::RingOptions());
  };

  EchoHandler handler;
  gyre::SocketServer server(std::move(options), handler);
  handler.SetBuffers(&server.response_buffers());
  if (absl::Status status = server.Start(); !status.ok()) return status;
  std::printf("echo_server: listening on 127.0.0.1:%d\n", server.bound_endpoints()[0].port);
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
    std::fprintf(stderr, "echo_server: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
