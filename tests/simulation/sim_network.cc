#include "tests/simulation/sim_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gyre::sim {

SimNetwork::~SimNetwork() {
  // The two ends of a connection hold each other.
  for (const SocketPtr& socket : connections_) socket->peer = nullptr;
}

int SimNetwork::AllocateFd(SocketPtr socket) {
  int fd = kFirstFd;
  for (const auto& [used, other] : sockets_) {
    if (used != fd) break;
    ++fd;
  }
  sockets_[fd] = std::move(socket);
  return fd;
}

size_t SimNetwork::MaybeShorten(size_t size_bytes) {
  if (options_.short_transfer_one_in == 0 || size_bytes < 2 ||
      !random_.OneIn(options_.short_transfer_one_in)) {
    return size_bytes;
  }
  return 1 + random_.Below(size_bytes - 1);
}

// --- the wire ---------------------------------------------------------------------

bool SimNetwork::MayDeliver(const Socket& socket, size_t buffer_bytes) {
  if (socket.reset || socket.peer == nullptr) return false;
  if (!socket.outgoing.empty()) {
    return socket.peer->closed || socket.peer->incoming.size() < buffer_bytes;
  }
  return socket.end_queued && !socket.end_delivered;
}

void SimNetwork::Deliver(Socket& socket) {
  Socket& peer = *socket.peer;
  if (socket.outgoing.empty()) {
    socket.end_delivered = true;
    peer.end_received = true;
    return;
  }
  if (peer.closed) {
    // Bytes for a socket that nobody holds are answered with a reset.
    Reset(socket);
    return;
  }
  const size_t room = options_.socket_buffer_bytes - peer.incoming.size();
  const size_t count = MaybeShorten(std::min(room, socket.outgoing.size()));
  peer.incoming.append(socket.outgoing, 0, count);
  socket.outgoing.erase(0, count);
}

bool SimNetwork::RunOnce() {
  std::vector<Socket*> ready;
  for (const SocketPtr& socket : connections_) {
    if (MayDeliver(*socket, options_.socket_buffer_bytes)) ready.push_back(socket.get());
  }
  if (ready.empty()) return false;
  Deliver(*ready[random_.Below(ready.size())]);
  Sweep();
  return true;
}

void SimNetwork::Reset(Socket& socket) {
  Socket& peer = *socket.peer;
  for (Socket* end : {&socket, &peer}) {
    end->reset = true;
    end->outgoing.clear();  // what has arrived can still be read
  }
}

void SimNetwork::ResetOne() {
  std::vector<Socket*> live;
  for (const SocketPtr& socket : connections_) {
    if (!socket->reset && socket->peer != nullptr) live.push_back(socket.get());
  }
  if (!live.empty()) Reset(*live[random_.Below(live.size())]);
  Sweep();
}

void SimNetwork::DropServer() {
  for (const SocketPtr& socket : connections_) {
    if (socket->peer != nullptr) Reset(*socket);
    socket->closed = socket->closed || socket->of_server;
  }
  for (auto it = sockets_.begin(); it != sockets_.end();) {
    it = it->second->of_server ? sockets_.erase(it) : std::next(it);
  }
  pipes_.clear();
  Sweep();
}

void SimNetwork::Sweep() {
  const auto is_over = [](const SocketPtr& socket) {
    return socket->peer != nullptr && socket->closed && socket->peer->closed &&
           (socket->reset || socket->end_delivered) &&
           (socket->peer->reset || socket->peer->end_delivered);
  };
  for (const SocketPtr& socket : connections_) {
    if (is_over(socket)) {
      socket->peer->peer = nullptr;  // breaks the cycle
      socket->peer = nullptr;
    }
  }
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                    [](const SocketPtr& socket) {
                                      return socket->peer == nullptr && socket->closed;
                                    }),
                     connections_.end());
}

// --- sockets ------------------------------------------------------------------------

int SimNetwork::Listen(uint16_t port) {
  auto socket = std::make_shared<Socket>();
  socket->listening = true;
  socket->of_server = true;
  socket->port = port;
  return AllocateFd(std::move(socket));
}

int SimNetwork::Connect(uint16_t port, uint32_t from) {
  std::vector<Socket*> listeners;
  for (const auto& [fd, socket] : sockets_) {
    if (socket->listening && socket->port == port) listeners.push_back(socket.get());
  }
  if (listeners.empty()) return -ECONNREFUSED;
  Socket* const listener = listeners[listeners.size() == 1 ? 0 : random_.Below(listeners.size())];
  auto client = std::make_shared<Socket>();
  auto server = std::make_shared<Socket>();
  client->port = next_client_port_++;
  client->address = from;
  server->port = port;
  server->of_server = true;
  client->peer = server;
  server->peer = client;
  listener->backlog.push_back(server);
  connections_.push_back(client);
  connections_.push_back(server);
  return AllocateFd(std::move(client));
}

IoResult SimNetwork::Accept(int listen_fd) {
  const auto listener = sockets_.find(listen_fd);
  if (listener == sockets_.end()) return IoResult::Error(EBADF);
  auto& backlog = listener->second->backlog;
  if (backlog.empty()) return IoResult::Error(EAGAIN);
  if (accept_error_ != 0) return IoResult::Error(accept_error_);
  SocketPtr socket = std::move(backlog.front());
  backlog.pop_front();
  return IoResult::Bytes(AllocateFd(std::move(socket)));
}

IoResult SimNetwork::Receive(int fd, char* to, size_t size_bytes) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return IoResult::Error(EBADF);
  Socket& socket = *found->second;
  if (socket.read_shut) return IoResult::Bytes(0);
  if (!socket.incoming.empty()) {
    const size_t count = MaybeShorten(std::min(size_bytes, socket.incoming.size()));
    std::memcpy(to, socket.incoming.data(), count);
    socket.incoming.erase(0, count);
    return IoResult::Bytes(static_cast<int32_t>(count));
  }
  if (socket.reset) return IoResult::Error(ECONNRESET);
  return socket.end_received ? IoResult::Bytes(0) : IoResult::Error(EAGAIN);
}

IoResult SimNetwork::Send(int fd, absl::string_view bytes) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return IoResult::Error(EBADF);
  Socket& socket = *found->second;
  if (socket.reset) return IoResult::Error(ECONNRESET);
  if (socket.end_queued) return IoResult::Error(EPIPE);
  if (bytes.empty()) return IoResult::Bytes(0);
  const size_t room = options_.socket_buffer_bytes - socket.outgoing.size();
  if (room == 0) return IoResult::Error(EAGAIN);
  const size_t count = MaybeShorten(std::min(room, bytes.size()));
  socket.outgoing.append(bytes.data(), count);
  return IoResult::Bytes(static_cast<int32_t>(count));
}

uint32_t SimNetwork::PollEvents(int fd) const {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return POLLNVAL;
  const Socket& socket = *found->second;
  if (socket.listening) return socket.backlog.empty() ? 0 : POLLIN;
  uint32_t events = 0;
  if (!socket.incoming.empty() || socket.end_received || socket.read_shut || socket.reset) {
    events |= POLLIN;
  }
  if (socket.reset || socket.end_queued || socket.outgoing.size() < options_.socket_buffer_bytes) {
    events |= POLLOUT;
  }
  if (socket.reset) events |= POLLERR | POLLHUP;
  if ((socket.end_received || socket.read_shut) && socket.end_queued) events |= POLLHUP;
  return events;
}

int64_t SimNetwork::UnacknowledgedBytes(int fd) const {
  const auto found = sockets_.find(fd);
  return found == sockets_.end() ? 0 : static_cast<int64_t>(found->second->outgoing.size());
}

void SimNetwork::Shutdown(int fd, bool write_side_only) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return;
  found->second->end_queued = true;
  if (!write_side_only) found->second->read_shut = true;
}

void SimNetwork::SetResetOnClose(int fd) { SocketOf(fd).reset_on_close = true; }

void SimNetwork::Close(int fd) {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return;
  const SocketPtr socket = found->second;
  sockets_.erase(found);
  socket->closed = true;
  if (socket->listening) {
    for (const SocketPtr& waiting : socket->backlog) {
      Reset(*waiting);
      waiting->closed = true;
    }
  } else if (socket->peer != nullptr && !socket->reset) {
    // As Linux: unread bytes make it a reset.
    if (socket->reset_on_close || !socket->incoming.empty()) {
      Reset(*socket);
    } else {
      socket->end_queued = true;
    }
  }
  Sweep();
}

std::function<bool()> SimNetwork::WatchAcknowledged(int fd) const {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return [] { return true; };  // went with the machine
  const SocketPtr socket = found->second;
  return [socket] { return socket->outgoing.empty() || socket->reset || socket->peer == nullptr; };
}

IoResult SimNetwork::PeerName(int fd, sockaddr_storage* address, socklen_t* address_size) const {
  const auto found = sockets_.find(fd);
  if (found == sockets_.end()) return IoResult::Error(EBADF);
  if (found->second->reset || found->second->peer == nullptr) return IoResult::Error(ENOTCONN);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(found->second->peer->address);
  name.sin_port = htons(found->second->peer->port);
  *address_size = std::min<socklen_t>(*address_size, sizeof(name));
  std::memcpy(address, &name, *address_size);
  return IoResult::Bytes(0);
}

int SimNetwork::OpenPipe(size_t capacity_bytes) {
  const int fd = next_pipe_fd_;
  next_pipe_fd_ += 2;
  pipes_[fd].capacity_bytes = capacity_bytes;
  return fd;
}

}  // namespace gyre::sim
