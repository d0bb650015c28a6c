#include "engine/network/accept/listen_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gyre {
namespace {

absl::Status Failed(const Endpoint& endpoint, absl::string_view what, int error) {
  const std::string where = absl::StrCat("listener ", endpoint.ToString(), ": ");
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat(where,
                       "the address is in use; stop the process that has it (ss -ltnp) or "
                       "choose another port in --listeners"));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat(where, "not permitted; ports below 1024 need CAP_NET_BIND_SERVICE"));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(
          absl::StrCat(where, "this machine has no such address (see ip addr)"));
    default:
      return absl::InvalidArgumentError(absl::StrCat(where, what, ": ", std::strerror(error)));
  }
}

absl::Status SetInt(int fd, int level, int option, int value, const Endpoint& endpoint,
                    absl::string_view what) {
  if (setsockopt(fd, level, option, &value, sizeof(value)) == 0) return absl::OkStatus();
  return Failed(endpoint, what, errno);
}

}  // namespace

bool IsSocketOf(const Endpoint& configured, const ListenSocket& socket) {
  const Endpoint& bound = socket.bound;
  return socket.fd.valid() && configured.listener_name == bound.listener_name &&
         configured.host == bound.host && (configured.port == 0 || configured.port == bound.port);
}

absl::StatusOr<ListenSocket> OpenListenSocket(const Endpoint& endpoint,
                                              const SocketOptions& options, bool reuse_port) {
  GYRE_ASSIGN_OR_RETURN(SocketAddress address, ToSocketAddress(endpoint));
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed(endpoint, "socket", errno);
  GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, endpoint, "SO_REUSEADDR"));
  if (reuse_port) {
    GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1, endpoint, "SO_REUSEPORT"));
  }
  GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1, endpoint, "SO_KEEPALIVE"));
  GYRE_RETURN_IF_ERROR(SetInt(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1, endpoint, "TCP_NODELAY"));
  if (address.storage.ss_family == AF_INET6) {
    GYRE_RETURN_IF_ERROR(SetInt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, endpoint, "IPV6_V6ONLY"));
  }
  if (options.send_buffer_bytes >= 0) {
    GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes,
                                endpoint, "socket_send_buffer_bytes"));
  }
  if (options.receive_buffer_bytes >= 0) {
    GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes,
                                endpoint, "socket_receive_buffer_bytes"));
  }
  const std::string& congestion = options.congestion_control;
  if (!congestion.empty() && setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                        static_cast<socklen_t>(congestion.size())) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket_congestion_control=", congestion, ": ", std::strerror(errno),
                     "; allowed are those in /proc/sys/net/ipv4/tcp_allowed_congestion_control"));
  }
  if (bind(fd.get(), address.get(), address.size) != 0) return Failed(endpoint, "bind", errno);
  if (listen(fd.get(), options.listen_backlog_size) != 0) return Failed(endpoint, "listen", errno);

  SocketAddress bound;
  bound.size = sizeof(bound.storage);
  if (getsockname(fd.get(), bound.get(), &bound.size) != 0) {
    return Failed(endpoint, "getsockname", errno);
  }
  ListenSocket result{std::move(fd), endpoint};
  result.bound.port = bound.port();
  return result;
}

uint64_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  return limit.rlim_cur;
}

int32_t ConnectionsWithin(uint64_t limit) {
  return static_cast<int32_t>(std::clamp<uint64_t>(limit - limit / 4, 1, INT32_MAX));
}

}  // namespace gyre
