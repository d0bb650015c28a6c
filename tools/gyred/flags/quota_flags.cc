#include <limits>

#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_int32(max_connections, std::numeric_limits<int32_t>::max(),
             "Connections at most; the next ones wait to be accepted.");
DEFINE_int32(max_connections_per_ip, std::numeric_limits<int32_t>::max(),
             "From one address; the next ones are closed.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  options.network.max_connections = FLAGS_max_connections;
  options.network.max_connections_per_ip = FLAGS_max_connections_per_ip;
  return absl::OkStatus();
}

}  // namespace

FlagGroup QuotaFlags() {
  return {"How many connections",
          {
              FlagSpec("max_connections").AtLeast(1),
              FlagSpec("max_connections_per_ip").AtLeast(1),
          },
          &Apply};
}

}  // namespace gyre
