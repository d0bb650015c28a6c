// gyred's part in a take-over: what it asks of the process before it, and what it
// offers to the one after it.
//
// Threads: the main thread's.
#ifndef GYRE_TOOLS_GYRED_GYRED_TAKEOVER_H_
#define GYRE_TOOLS_GYRED_GYRED_TAKEOVER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/process/takeover.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/gyred_admin.h"

namespace gyre {

// Where `options` have the socket.
std::string TakeoverSocketOf(const BrokerServerOptions& options);

// The sockets of a successor, before it commits.
struct TakenSockets {
  std::vector<ListenSocket> admin;
  std::vector<ListenSocket> listeners;
};

// Asks the process that serves the data directory, if there is one: none, and it was
// not told anything, when there is not. An error leaves it serving.
absl::StatusOr<std::optional<Takeover>> BeginTakeover(const BrokerServerOptions& options);
// What came, by who takes it. An error when one has no taker: its clients would be cut off.
absl::StatusOr<TakenSockets> SocketsFor(const BrokerServerOptions& options, Takeover& takeover);

// Offers the sockets of both; `on_commit` as TakeoverPoint's. Null, with a line in the
// log, where that cannot be done: it is no reason not to serve.
std::unique_ptr<TakeoverPoint> OfferTakeover(const BrokerServerOptions& options,
                                             BrokerServer& server, GyredAdmin& admin,
                                             std::function<void()> on_commit);

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_GYRED_TAKEOVER_H_
