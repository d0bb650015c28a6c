// Where a listener listens: a name, a host and a port, as Kafka's `listeners`
// writes them ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://[::1]:0").
//
// Threads: immutable value.
#ifndef GYRE_ENGINE_NETWORK_ENDPOINT_H_
#define GYRE_ENGINE_NETWORK_ENDPOINT_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gyre {

struct Endpoint {
  std::string listener_name;  // "PLAINTEXT"
  std::string host;           // an IPv4 or IPv6 literal, "localhost", or "" = every address
  uint16_t port = 0;          // 0: the kernel chooses

  // "PLAINTEXT://127.0.0.1:9092"; an IPv6 host is put in brackets.
  std::string ToString() const;
};

// INVALID_ARGUMENT says which part is wrong and what it may be. Names are never
// looked up, except "localhost", which is 127.0.0.1.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text);

// "HOST:PORT" alone, with the same rules; the name stays empty.
absl::StatusOr<Endpoint> ParseHostPort(absl::string_view text);

// Whether both cannot be bound: the same port, which is not the kernel's choice (0), of
// the same address, or of every address.
bool WantSameAddress(const Endpoint& a, const Endpoint& b);

// A comma-separated list, at least one; names must differ, and no two may want the
// same port of the same address (every address includes each). IPv4 and IPv6 may
// share a port number, and several may leave the port to the kernel (0).
absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(absl::string_view text);

// What clients are told: the host may be a name, which is theirs to look up; it may
// not be empty or "every address", and the port not 0. An IPv6 literal loses its
// brackets. Names must differ.
absl::StatusOr<Endpoint> ParseAdvertisedEndpoint(absl::string_view text);
absl::StatusOr<std::vector<Endpoint>> ParseAdvertisedEndpoints(absl::string_view text);

// A socket address with its size; what bind, getpeername and quotas need.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  uint16_t port() const;
  // "127.0.0.1", "::1"; an IPv4 address mapped into IPv6 is shown as IPv4.
  std::string host() const;
  // "127.0.0.1:50312", "[::1]:50312".
  std::string ToString() const;
  bool is_loopback() const;
};

// An address without its port, for counting by peer. An IPv4 address is kept as
// its IPv6 mapping, so both families share a count.
using AddressKey = std::array<uint8_t, 16>;
AddressKey KeyOf(const SocketAddress& address);

// Who is at the other end, in as few bytes as may be: many connections keep one.
struct PeerAddress {
  AddressKey address = {};
  uint16_t port = 0;

  // "127.0.0.1:50312", "[::1]:50312".
  std::string ToString() const;
};

// The address to bind; `host` "" is 0.0.0.0.
absl::StatusOr<SocketAddress> ToSocketAddress(const Endpoint& endpoint);

// The host that clients are sent to when nothing else was configured: the
// literal the listener is bound to, or 127.0.0.1 / ::1 when it is bound to every
// address. Always a literal, so that clients need no name service.
std::string DefaultAdvertisedHost(const Endpoint& bound);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ENDPOINT_H_
