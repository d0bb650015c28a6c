// How long does one echo take? One connection, one frame under way, blocking calls.
//   --rate=0   the next frame leaves when the echo is here: latency of one request at a time
//   --rate=N   frame i is due i/N seconds after the start, and its latency counts from then, so
//              that a server that stalls is charged for everything it held up; `late` says how
//              many frames left more than 50 us after their time
#include <gflags/gflags.h>

#include <string>
#include <vector>

#include "benchmarks/macro/measurement.h"
#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "the server's port on 127.0.0.1");
DEFINE_int32(server_pid, 0, "the server's process");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_int32(payload_bytes, 128, "bytes of a frame after its length");
DEFINE_double(rate, 0, "frames a second; 0: one after the other");
DEFINE_double(warmup_seconds, 0.2, "before the figures start");
DEFINE_double(seconds, 1.5, "how long the figures are taken");

namespace gyre::bench {
namespace {

constexpr int64_t kLateNs = 50'000;

class LatencyLoad {
 public:
  LatencyLoad() : fd_(Connect(FLAGS_port, FLAGS_congestion)), measurement_(FLAGS_server_pid) {
    frame_.assign(4 + static_cast<size_t>(FLAGS_payload_bytes), 'x');
    PutInt32(frame_.data(), static_cast<uint32_t>(FLAGS_payload_bytes));
    echo_.resize(frame_.size());
    latencies_ns_.reserve(1 << 20);
  }

  void Run() {
    Phase(FLAGS_warmup_seconds);
    latencies_ns_.clear();
    late_ = 0;
    measurement_.Start();
    Phase(FLAGS_seconds);
    const auto count = static_cast<int64_t>(latencies_ns_.size());
    measurement_.Print(count, count * static_cast<int64_t>(frame_.size()), latencies_ns_, late_);
  }

 private:
  void Phase(double seconds) {
    const int64_t start_ns = NowNs();
    const int64_t end_ns = start_ns + static_cast<int64_t>(seconds * 1e9);
    for (int64_t i = 0;; ++i) {
      int64_t due_ns = NowNs();
      if (FLAGS_rate > 0) {
        due_ns = start_ns + static_cast<int64_t>(static_cast<double>(i) * 1e9 / FLAGS_rate);
        WaitUntil(due_ns);
        if (NowNs() > due_ns + kLateNs) ++late_;
      }
      if (due_ns >= end_ns) return;
      WriteAll(fd_, frame_.data(), frame_.size());
      if (!ReadAll(fd_, echo_.data(), echo_.size())) Die("the server closed the connection");
      latencies_ns_.push_back(NowNs() - due_ns);
      if (echo_ != frame_) {
        fprintf(stderr, "an echo differs from what was sent\n");
        exit(1);
      }
    }
  }

  // Sleeps, and looks at the clock for the last stretch: a timer alone is 50 us late.
  static void WaitUntil(int64_t due_ns) {
    constexpr int64_t kSpinNs = 70'000;
    if (due_ns - NowNs() > kSpinNs) {
      const int64_t wake_ns = due_ns - kSpinNs;
      const timespec wake = {wake_ns / 1'000'000'000, wake_ns % 1'000'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr);
    }
    while (NowNs() < due_ns) {
    }
  }

  const int fd_;
  Measurement measurement_;
  std::string frame_, echo_;
  std::vector<int64_t> latencies_ns_;
  int64_t late_ = 0;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::LatencyLoad().Run();
}
