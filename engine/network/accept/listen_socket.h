// A bound, listening TCP socket with everything set that accepted sockets inherit.
//
// Threads: any.
#ifndef GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_H_
#define GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_H_

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "engine/network/endpoint.h"
#include "engine/network/server_options.h"

namespace gyre {

struct ListenSocket {
  UniqueFd fd;     // non-blocking, close-on-exec
  Endpoint bound;  // the port is the real one
};

// Whether the socket is one of the configured listener's: the same name, host and port,
// or any port where 0 is configured.
bool IsSocketOf(const Endpoint& configured, const ListenSocket& socket);

// Errors say which endpoint, what failed and what to do: ALREADY_EXISTS for an
// address in use, PERMISSION_DENIED for a privileged port, else INVALID_ARGUMENT.
// `reuse_port`: several sockets may listen there (SO_REUSEPORT), and the kernel
// spreads connections over them.
absl::StatusOr<ListenSocket> OpenListenSocket(const Endpoint& endpoint,
                                              const SocketOptions& options, bool reuse_port);

// Raises the soft limit of open descriptors to the hard one. The limit that now
// holds.
uint64_t RaiseDescriptorLimit();
// How many connections may have one of `limit` descriptors, so that they never
// take what log files need: three quarters of them.
int32_t ConnectionsWithin(uint64_t limit);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_H_
