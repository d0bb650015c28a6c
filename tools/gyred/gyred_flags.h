// gyred's command line: Kafka's config names with underscores where Kafka has
// one. Values are checked together, after parsing, so that each bad one is one
// line that says what would be good.
#ifndef GYRE_TOOLS_GYRED_GYRED_FLAGS_H_
#define GYRE_TOOLS_GYRED_GYRED_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/gyred/broker_server.h"

namespace gyre {

// What the flags ask for. INVALID_ARGUMENT names the first bad flag.
absl::StatusOr<BrokerServerOptions> OptionsFromFlags();

// --help: the flags by subject, with defaults.
std::string HelpText();

bool HelpWanted();
bool VersionWanted();
bool CheckConfigWanted();

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_GYRED_FLAGS_H_
