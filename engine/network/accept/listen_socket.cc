#include "engine/network/accept/listen_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

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
                       "choose another port"));
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

// With everything set but an address.
absl::StatusOr<UniqueFd> MakeSocket(const Endpoint& endpoint, const SocketAddress& address,
                                    const SocketOptions& options) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed(endpoint, "socket", errno);
  GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, endpoint, "SO_REUSEADDR"));
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
  return fd;
}

}  // namespace

bool IsSocketOf(const Endpoint& configured, const ListenSocket& socket) {
  const Endpoint& bound = socket.bound;
  return socket.fd.valid() && configured.listener_name == bound.listener_name &&
         configured.host == bound.host && (configured.port == 0 || configured.port == bound.port);
}

absl::StatusOr<ListenSocket> BindListenSocket(const Endpoint& endpoint,
                                              const SocketOptions& options, bool reuse_port) {
  GYRE_ASSIGN_OR_RETURN(SocketAddress address, ToSocketAddress(endpoint));
  GYRE_ASSIGN_OR_RETURN(UniqueFd fd, MakeSocket(endpoint, address, options));
  if (reuse_port) {
    GYRE_RETURN_IF_ERROR(SetInt(fd.get(), SOL_SOCKET, SO_REUSEPORT, 1, endpoint, "SO_REUSEPORT"));
  }
  if (bind(fd.get(), address.get(), address.size) != 0) return Failed(endpoint, "bind", errno);
  SocketAddress bound;
  bound.size = sizeof(bound.storage);
  if (getsockname(fd.get(), bound.get(), &bound.size) != 0) {
    return Failed(endpoint, "getsockname", errno);
  }
  ListenSocket result{std::move(fd), endpoint};
  result.bound.port = bound.port();
  return result;
}

absl::Status Listen(const UniqueFd& fd, const Endpoint& endpoint, const SocketOptions& options) {
  if (listen(fd.get(), options.listen_backlog_size) == 0) return absl::OkStatus();
  return Failed(endpoint, "listen", errno);
}

absl::StatusOr<ListenSocket> OpenListenSocket(const Endpoint& endpoint,
                                              const SocketOptions& options, bool reuse_port) {
  GYRE_ASSIGN_OR_RETURN(ListenSocket socket, BindListenSocket(endpoint, options, reuse_port));
  GYRE_RETURN_IF_ERROR(Listen(socket.fd, socket.bound, options));
  return socket;
}

absl::Status CheckSocketOptions(const Endpoint& endpoint, const SocketOptions& options) {
  GYRE_ASSIGN_OR_RETURN(SocketAddress address, ToSocketAddress(endpoint));
  return MakeSocket(endpoint, address, options).status();
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

uint64_t OpenDescriptorCount() {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return count;
}

int32_t ConnectionsWithin(uint64_t limit, uint64_t others) {
  const uint64_t left = limit - std::min(limit, others);
  return static_cast<int32_t>(
      std::clamp<uint64_t>(std::min(limit - limit / 4, left), 1, INT32_MAX));
}

}  // namespace gyre
