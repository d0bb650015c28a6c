// How a live flag of connections gets to those that are there.
#ifndef GYRE_TOOLS_GYRED_FLAGS_LIVE_CONNECTION_H_
#define GYRE_TOOLS_GYRED_FLAGS_LIVE_CONNECTION_H_

#include "absl/status/status.h"
#include "engine/network/socket_server.h"
#include "tools/gyred/broker_server.h"

namespace gyre {

// `change` gets the options as they are.
inline absl::Status ChangeConnections(BrokerServer& server,
                                      void (*change)(ConnectionOptions& options)) {
  ConnectionOptions options = server.network().connection_options();
  change(options);
  return server.network().SetConnectionOptions(options);
}

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_FLAGS_LIVE_CONNECTION_H_
