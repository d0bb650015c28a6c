// Addresses of hosts. The system's look-up of a name may take as long as its resolvers are
// tried, and nothing ends it, so each has a thread of its own: who has a loop to keep going
// asks with Find, which never waits; who has none waits no longer than it says.
//
// Threads: any.
// Owns: what is known. A look-up that is under way at the end keeps what it needs itself.
#ifndef GYRE_TOOLS_LOAD_HOST_NAMES_H_
#define GYRE_TOOLS_LOAD_HOST_NAMES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/network/endpoint.h"

namespace gyre::load {

class HostNames {
 public:
  // The first address of a host, with any port. Called on a thread of its own.
  using LookUp = std::function<absl::StatusOr<SocketAddress>(const std::string& host)>;

  HostNames();  // getaddrinfo(3)
  explicit HostNames(LookUp look_up);

  // A literal, or what was found before (and is looked up again now and then), at once.
  // Else UNAVAILABLE says what the last look-up said, or that there was none yet, and one is
  // under way.
  absl::StatusOr<SocketAddress> Find(const std::string& host, uint16_t port);
  // Waits for the first look-up: DEADLINE_EXCEEDED after `timeout_ns`, CANCELLED when
  // `interrupted`.
  absl::StatusOr<SocketAddress> Await(const std::string& host, uint16_t port, int64_t timeout_ns,
                                      const std::atomic<bool>& interrupted);

 private:
  struct Known;

  const std::shared_ptr<Known> known_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_HOST_NAMES_H_
