// What does a framed echo cost with Asio? The same job as tools/examples/echo_server on Debian's
// standalone Asio (its epoll reactor): one thread that tells Asio so, frames checked against a
// limit, whole frames echoed with one write.
#define ASIO_STANDALONE
#define ASIO_DISABLE_THREADS  // One thread: its locks become nothing.
#include <gflags/gflags.h>

#include <algorithm>
#include <asio.hpp>
#include <memory>
#include <vector>

#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "port on 127.0.0.1; 0 picks one and prints it");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");

namespace gyre::bench {
namespace {

using asio::ip::tcp;

constexpr uint32_t kMaxFrameBytes = 1 << 20;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(tcp::socket socket) : socket_(std::move(socket)), in_(16384) {}

  void Receive() {
    if (used_ == in_.size()) in_.resize(in_.size() * 2);
    socket_.async_read_some(asio::buffer(in_.data() + used_, in_.size() - used_),
                            [self = shared_from_this()](const asio::error_code& error, size_t n) {
                              if (!error) self->OnReceived(n);
                            });
  }

 private:
  void OnReceived(size_t n) {
    used_ += n;
    const ssize_t whole = WholeFrames(in_.data(), used_, kMaxFrameBytes);
    if (whole < 0) return;  // The last reference goes, and the socket with it.
    if (whole == 0) return Receive();
    asio::async_write(socket_, asio::buffer(in_.data(), static_cast<size_t>(whole)),
                      [self = shared_from_this()](const asio::error_code& error, size_t sent) {
                        if (!error) self->OnSent(sent);
                      });
  }

  void OnSent(size_t sent) {
    used_ -= sent;
    std::copy_n(in_.begin() + static_cast<std::ptrdiff_t>(sent), used_, in_.begin());
    Receive();
  }

  tcp::socket socket_;
  std::vector<char> in_;
  size_t used_ = 0;
};

class AsioEcho {
 public:
  AsioEcho() : context_(1), acceptor_(context_) {
    acceptor_.assign(tcp::v4(), Listen("asio_echo", FLAGS_port, FLAGS_congestion, SOCK_NONBLOCK));
  }

  void Run() {
    Accept();
    context_.run();
  }

 private:
  void Accept() {
    acceptor_.async_accept([this](const asio::error_code& error, tcp::socket socket) {
      if (!error) std::make_shared<Connection>(std::move(socket))->Receive();
      Accept();
    });
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::AsioEcho().Run();
}
