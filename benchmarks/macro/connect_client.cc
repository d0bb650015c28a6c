// The load of the connection benchmarks.
//   --mode=churn   a number of connections at a time, each of which is opened, finished by the
//                  client (FIN), seen closed by the server, and opened again. Prints one JSON
//                  object whose operations are connections that ended so
//   --mode=hold    opens the connections, one at a time, sends one frame on each and checks its
//                  echo, says so in a line and holds them until its input ends
// Source addresses 127.0.0.2 … 127.0.0.31 are used in turn, so that ports in TIME_WAIT do not run
// out.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <sys/epoll.h>

#include <string>
#include <vector>

#include "benchmarks/macro/measurement.h"
#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "the server's port on 127.0.0.1");
DEFINE_int32(server_pid, 0, "the server's process");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_string(mode, "churn", "churn or hold");
DEFINE_int32(connections, 64, "connections at a time");
DEFINE_bool(echo, true, "hold: one echo on each connection");
DEFINE_double(warmup_seconds, 0.3, "churn: before the figures start");
DEFINE_double(seconds, 1.5, "churn: how long the figures are taken");

namespace gyre::bench {
namespace {

constexpr uint32_t kSourceAddresses = 30;

// Under way where `flags` has SOCK_NONBLOCK.
int StartConnect(uint32_t serial, int flags) {
  const int fd = Checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), "socket");
  SetTcpOptions(fd, FLAGS_congestion);
  const int one = 1;
  Checked(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)), "no port");
  sockaddr_in source = Loopback(0);
  source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + serial % kSourceAddresses);
  Checked(bind(fd, reinterpret_cast<sockaddr*>(&source), sizeof(source)), "bind");
  const sockaddr_in address = Loopback(FLAGS_port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0 &&
      errno != EINPROGRESS) {
    Die("connect");
  }
  return fd;
}

class Churn {
 public:
  Churn()
      : epoll_(Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        measurement_(FLAGS_server_pid) {}

  void Run() {
    for (int i = 0; i < FLAGS_connections; ++i) Open();
    measurement_.Start();
    Phase(FLAGS_warmup_seconds);
    ended_ = 0;
    measurement_.Start();
    Phase(FLAGS_seconds);
    std::vector<int64_t> none;
    measurement_.Print(ended_, 0, none);
  }

 private:
  void Open() {
    const int fd = StartConnect(serial_++, SOCK_NONBLOCK);
    epoll_event event = {};
    event.events = EPOLLOUT;
    event.data.fd = fd;
    Checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }

  void Phase(double seconds) {
    epoll_event events[256];
    const int64_t end_ns = NowNs() + static_cast<int64_t>(seconds * 1e9);
    while (NowNs() < end_ns) {
      const int n = epoll_wait(epoll_, events, 256, 100);
      for (int i = 0; i < n; ++i) On(events[i]);
    }
  }

  void On(epoll_event event) {
    const int fd = event.data.fd;
    if (event.events & EPOLLOUT) {
      int error = 0;
      socklen_t size = sizeof(error);
      Checked(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), "SO_ERROR");
      if (error != 0) {
        errno = error;
        Die("connect");
      }
      Checked(shutdown(fd, SHUT_WR), "shutdown");
      event.events = EPOLLIN;
      Checked(epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event), "epoll_ctl");
      return;
    }
    char byte;
    const ssize_t n = recv(fd, &byte, 1, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n != 0) Die("a connection did not end with FIN");
    close(fd);
    ++ended_;
    Open();
  }

  const int epoll_;
  Measurement measurement_;
  uint32_t serial_ = 0;
  int64_t ended_ = 0;
};

void Hold() {
  std::string frame(132, 'x');
  PutInt32(frame.data(), 128);
  std::string echo(frame.size(), 0);
  std::vector<int> held;
  for (int i = 0; i < FLAGS_connections; ++i) {
    held.push_back(StartConnect(static_cast<uint32_t>(i), 0));
    if (!FLAGS_echo) continue;
    WriteAll(held.back(), frame.data(), frame.size());
    if (!ReadAll(held.back(), echo.data(), echo.size()) || echo != frame) Die("echo");
  }
  printf("holding %zu connections\n", held.size());
  fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_mode == "churn") {
    gyre::bench::Churn().Run();
  } else if (FLAGS_mode == "hold") {
    gyre::bench::Hold();
  } else {
    fprintf(stderr, "--mode is churn or hold\n");
    return 2;
  }
}
