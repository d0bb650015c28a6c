// TCP in memory, for a simulation: listeners, connections, bounded socket
// buffers, and a wire between them that moves bytes only when it is stepped.
// What a step moves, and how short a transfer is, comes from the seed.
//
// Descriptors are numbers far above real ones (a stray close(2) of one finds
// nothing) and are reused lowest first, as the kernel's are.
//
// Threads: one.
// Owns: every socket and pipe; a closed one lives until its bytes are delivered.
#ifndef GYRE_TESTS_SIMULATION_SIM_NETWORK_H_
#define GYRE_TESTS_SIMULATION_SIM_NETWORK_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/io_result.h"
#include "engine/base/random.h"

namespace gyre::sim {

class SimNetwork {
 public:
  static constexpr int kFirstFd = 1 << 20;

  struct Options {
    size_t socket_buffer_bytes = 4096;   // each direction, at each end
    uint64_t short_transfer_one_in = 4;  // transfers that move less than they could; 0: none
  };

  SimNetwork(uint64_t seed, const Options& options) : random_(seed), options_(options) {}
  ~SimNetwork();

  // --- the wire --------------------------------------------------------------------
  // Delivers some bytes, or an end of stream, of one connection. False when
  // there is nothing to deliver.
  bool RunOnce();
  // Resets one connection, both ends, if there is any.
  void ResetOne();
  // The machine that listens is gone: every connection is reset, accepted
  // sockets, listeners and pipes are closed. Clients keep their descriptors.
  void DropServer();

  // --- calls on sockets, non-blocking, for either end ---------------------------------
  // Several may listen on a port; a connection goes to any of them.
  int Listen(uint16_t port);
  // The client's socket, or -ECONNREFUSED. `from`: its address, in host order.
  int Connect(uint16_t port, uint32_t from = INADDR_LOOPBACK);
  uint16_t LocalPort(int fd) const { return SocketOf(fd).port; }
  // Accept fails with this from now on; 0: it works again.
  void SetAcceptError(int error) { accept_error_ = error; }
  IoResult Accept(int listen_fd);
  IoResult Receive(int fd, char* to, size_t size_bytes);
  IoResult Send(int fd, absl::string_view bytes);
  // POLLIN, POLLOUT, POLLHUP, POLLERR as poll(2) would answer.
  uint32_t PollEvents(int fd) const;
  // What was sent and is not at the peer.
  int64_t UnacknowledgedBytes(int fd) const;
  void Shutdown(int fd, bool write_side_only);
  void SetResetOnClose(int fd);
  void Close(int fd);
  // Tells, also after the descriptor is closed, whether the peer has taken all that
  // was sent so far and after, or never will.
  std::function<bool()> WatchAcknowledged(int fd) const;
  bool IsOpen(int fd) const { return sockets_.contains(fd); }
  IoResult PeerName(int fd, sockaddr_storage* address, socklen_t* address_size) const;

  // --- pipes ---------------------------------------------------------------------------
  struct Pipe {
    std::string bytes;
    size_t capacity_bytes = 0;
  };
  // The read end's descriptor; the write end's is the next number.
  int OpenPipe(size_t capacity_bytes);
  Pipe& PipeOf(int read_fd) { return pipes_.at(read_fd); }
  void ClosePipe(int read_fd) { pipes_.erase(read_fd); }

  size_t open_sockets() const { return sockets_.size(); }
  size_t open_pipes() const { return pipes_.size(); }

 private:
  struct Socket {
    bool listening = false;
    bool of_server = false;
    uint16_t port = 0;
    uint32_t address = INADDR_LOOPBACK;
    std::deque<std::shared_ptr<Socket>> backlog;  // a listener's

    std::shared_ptr<Socket> peer;
    std::string outgoing;  // taken from the sender, not at the receiver
    std::string incoming;
    bool end_queued = false;     // after `outgoing`
    bool end_delivered = false;  // to the peer
    bool end_received = false;
    bool read_shut = false;
    bool reset = false;
    bool closed = false;  // no descriptor names it any more
    bool reset_on_close = false;
  };
  using SocketPtr = std::shared_ptr<Socket>;

  int AllocateFd(SocketPtr socket);
  Socket& SocketOf(int fd) const { return *sockets_.at(fd); }
  static bool MayDeliver(const Socket& socket, size_t buffer_bytes);
  void Deliver(Socket& socket);
  static void Reset(Socket& socket);
  // Forgets connections on which nothing can happen any more.
  void Sweep();
  size_t MaybeShorten(size_t size_bytes);

  Random random_;
  const Options options_;
  std::map<int, SocketPtr> sockets_;
  std::map<int, Pipe> pipes_;
  std::vector<SocketPtr> connections_;  // both ends of each
  int next_pipe_fd_ = 2 * kFirstFd;
  uint16_t next_client_port_ = 40'000;
  int accept_error_ = 0;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_NETWORK_H_
