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
#include "engine/process/stop_signals.h"
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
// What came from process `pid`, by who takes it. An error when one has no taker: its
// clients would be cut off.
absl::StatusOr<TakenSockets> SocketsFor(const BrokerServerOptions& options,
                                        std::vector<ListenSocket> sockets, int pid);

// `status`, of a start that failed for an address in use, with who may have it where that is
// told by the data directory's lock: a process that starts or ends cannot be taken over.
absl::Status WithHolder(const BrokerServerOptions& options, absl::Status status);

// Offers the sockets of both; `on_commit` as TakeoverPoint's. Null, with a line in the
// log, where that cannot be done: it is no reason not to serve. `serves_again`: a successor
// has just ended before it served; others are refused for a while, so that one which is
// started again and again does not interrupt the service as often.
std::unique_ptr<TakeoverPoint> OfferTakeover(const BrokerServerOptions& options,
                                             BrokerServer& server, GyredAdmin& admin,
                                             bool serves_again, std::function<void()> on_commit);

// When all is released: stands by until the successor serves, and returns. If that ends
// before it does, executes the program again with `arguments`, so that it serves again.
// Returns, too, when a signal asks for the end, or after the time that a successor waits.
void StandBy(const BrokerServerOptions& options, TakeoverPoint& point, const StopSignals& signals,
             const std::vector<std::string>& arguments);

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_GYRED_TAKEOVER_H_
