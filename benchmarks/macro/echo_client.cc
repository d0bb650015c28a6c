// The load of the echo benchmark: a number of connections, each with one frame under way, driven
// by epoll from one thread. Every echo is compared with what was sent. Prints one JSON object
// with the echoes and the CPU times of server and client between the end of the warm-up and the
// end of the run.
#include <gflags/gflags.h>
#include <sys/epoll.h>

#include <string>
#include <vector>

#include "benchmarks/macro/sockets.h"

DEFINE_int32(port, 0, "the server's port on 127.0.0.1");
DEFINE_int32(server_pid, 0, "the server's process");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_int32(connections, 64, "connections, each with one frame under way");
DEFINE_int32(payload_bytes, 128, "bytes of a frame after its length");
DEFINE_double(warmup_seconds, 0.4, "before the figures start");
DEFINE_double(seconds, 1.5, "how long the figures are taken");

namespace gyre::bench {
namespace {

struct Stream {
  int fd = -1;
  size_t received = 0;
  std::string frame;
  std::string echo;
};

void Run() {
  const int epoll = Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::vector<Stream> streams(static_cast<size_t>(FLAGS_connections));
  const size_t size = 4 + static_cast<size_t>(FLAGS_payload_bytes);
  for (size_t i = 0; i < streams.size(); ++i) {
    Stream& s = streams[i];
    s.fd = Connect(FLAGS_port, FLAGS_congestion);
    s.frame.assign(size, static_cast<char>('a' + i % 26));
    PutInt32(s.frame.data(), static_cast<uint32_t>(FLAGS_payload_bytes));
    s.echo.assign(size, 0);
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = i;
    Checked(epoll_ctl(epoll, EPOLL_CTL_ADD, s.fd, &event), "epoll_ctl");
  }
  for (Stream& s : streams) WriteAll(s.fd, s.frame.data(), size);

  int64_t start = NowNs(), server_cpu = 0, client_cpu = 0, echoes = 0;
  bool measuring = false;
  epoll_event events[256];
  for (;;) {
    const int64_t now = NowNs();
    const double elapsed = static_cast<double>(now - start) / 1e9;
    if (!measuring && elapsed >= FLAGS_warmup_seconds) {
      measuring = true;
      start = now;
      echoes = 0;
      server_cpu = ProcessCpuNs(FLAGS_server_pid);
      client_cpu = ProcessCpuNs(0);
    } else if (measuring && elapsed >= FLAGS_seconds) {
      server_cpu = ProcessCpuNs(FLAGS_server_pid) - server_cpu;
      client_cpu = ProcessCpuNs(0) - client_cpu;
      printf(
          "{\"operations\": %lld, \"seconds\": %.6f, \"server_cpu_us\": %.1f, "
          "\"client_cpu_us\": %.1f}\n",
          static_cast<long long>(echoes), elapsed, static_cast<double>(server_cpu) / 1e3,
          static_cast<double>(client_cpu) / 1e3);
      return;
    }
    const int n = epoll_wait(epoll, events, 256, 100);
    for (int i = 0; i < n; ++i) {
      Stream& s = streams[events[i].data.u64];
      const ssize_t got = recv(s.fd, s.echo.data() + s.received, size - s.received, 0);
      if (got <= 0) Die("the server closed a connection");
      s.received += static_cast<size_t>(got);
      if (s.received < size) continue;
      if (s.echo != s.frame) {
        fprintf(stderr, "an echo differs from what was sent\n");
        exit(1);
      }
      ++echoes;
      s.received = 0;
      WriteAll(s.fd, s.frame.data(), size);
    }
  }
}

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::Run();
}
