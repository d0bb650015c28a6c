// What does a framed echo cost with epoll and nothing else? The least server that does the same
// job as tools/examples/echo_server: one thread, level-triggered epoll, int32-length-prefixed
// frames checked against a limit, whole frames echoed with one send.
#include <gflags/gflags.h>
#include <sys/epoll.h>

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "port on 127.0.0.1; 0 picks one and prints it");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");

namespace gyre::bench {
namespace {

constexpr uint32_t kMaxFrameBytes = 1 << 20;

struct Connection {
  int fd = -1;
  std::vector<char> in = std::vector<char>(16384);
  size_t used = 0;
  std::string out;  // What the socket did not take; while there is some, nothing is read.
};

class EpollEcho {
 public:
  EpollEcho() : epoll_(Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
    listener_ = Listen("epoll_echo", FLAGS_port, FLAGS_congestion, SOCK_NONBLOCK);
    Watch(EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
  }

  [[noreturn]] void Run() {
    epoll_event events[256];
    for (;;) {
      const int n = epoll_wait(epoll_, events, 256, -1);
      if (n < 0 && errno != EINTR) Die("epoll_wait");
      for (int i = 0; i < n; ++i) {
        auto* connection = static_cast<Connection*>(events[i].data.ptr);
        if (connection == nullptr) {
          Accept();
        } else if (!(events[i].events & EPOLLOUT ? Flush(*connection) : Receive(*connection))) {
          close(connection->fd);
          delete connection;
        }
      }
    }
  }

 private:
  void Watch(int operation, int fd, uint32_t events, Connection* connection) {
    epoll_event event = {};
    event.events = events;
    event.data.ptr = connection;
    Checked(epoll_ctl(epoll_, operation, fd, &event), "epoll_ctl");
  }

  void Accept() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      auto connection = std::make_unique<Connection>();
      connection->fd = fd;
      Watch(EPOLL_CTL_ADD, fd, EPOLLIN, connection.release());
    }
  }

  bool Receive(Connection& c) {
    if (c.used == c.in.size()) c.in.resize(c.in.size() * 2);
    const ssize_t n = recv(c.fd, c.in.data() + c.used, c.in.size() - c.used, 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    c.used += static_cast<size_t>(n);
    const ssize_t whole = WholeFrames(c.in.data(), c.used, kMaxFrameBytes);
    if (whole < 0) return false;
    if (whole == 0) return true;
    const ssize_t sent = send(c.fd, c.in.data(), static_cast<size_t>(whole), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    const size_t taken = sent < 0 ? 0 : static_cast<size_t>(sent);
    if (taken < static_cast<size_t>(whole)) {
      c.out.assign(c.in.data() + taken, static_cast<size_t>(whole) - taken);
      Watch(EPOLL_CTL_MOD, c.fd, EPOLLOUT, &c);
    }
    c.used -= static_cast<size_t>(whole);
    memmove(c.in.data(), c.in.data() + whole, c.used);
    return true;
  }

  bool Flush(Connection& c) {
    const ssize_t sent = send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    c.out.erase(0, static_cast<size_t>(sent));
    if (c.out.empty()) Watch(EPOLL_CTL_MOD, c.fd, EPOLLIN, &c);
    return true;
  }

  const int epoll_;
  int listener_;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::EpollEcho().Run();
}
