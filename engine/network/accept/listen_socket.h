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

// A socket that has the address, which nobody else can bind then; connects are refused
// until it listens. Errors say which endpoint, what failed and what to do: ALREADY_EXISTS
// for an address in use, PERMISSION_DENIED for a privileged port, else INVALID_ARGUMENT.
// `reuse_port`: several sockets may listen there (SO_REUSEPORT), and the kernel
// spreads connections over them.
absl::StatusOr<ListenSocket> BindListenSocket(const Endpoint& endpoint,
                                              const SocketOptions& options, bool reuse_port);
// One that listens already gets the backlog of `options`.
absl::Status Listen(const UniqueFd& fd, const Endpoint& endpoint, const SocketOptions& options);
// Both.
absl::StatusOr<ListenSocket> OpenListenSocket(const Endpoint& endpoint,
                                              const SocketOptions& options, bool reuse_port);
// Whether the kernel takes the options; binds nothing.
absl::Status CheckSocketOptions(const Endpoint& endpoint, const SocketOptions& options);

// Raises the soft limit of open descriptors to the hard one. The limit that now
// holds.
uint64_t RaiseDescriptorLimit();
// How many this process has open.
uint64_t OpenDescriptorCount();
// How many connections may have one of `limit` descriptors, so that they never take what
// log files need: three quarters of them, and what `others` leave, at least one.
int32_t ConnectionsWithin(uint64_t limit, uint64_t others);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_H_
