// What a start of gyred refuses, found out without starting anything: nothing is bound,
// opened or written, and a process that serves the same data directory notices nothing.
// gyred --check_config ends with it; each start, and each take-over before it asks the
// running process for anything, begins with it.
//
// Threads: any.
#ifndef GYRE_TOOLS_GYRED_CONFIG_CHECK_H_
#define GYRE_TOOLS_GYRED_CONFIG_CHECK_H_

#include "absl/status/status.h"
#include "tools/gyred/broker_server.h"

namespace gyre {

// The first thing that is wrong, in one line that says what would be right. Names in
// max_connections_per_ip_overrides are looked up.
absl::Status CheckConfig(const BrokerServerOptions& options);

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_CONFIG_CHECK_H_
