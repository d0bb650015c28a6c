// gyred's command line: Kafka's config names with underscores where Kafka has
// one. Values are checked together, after parsing, so that each bad one is one
// line that says what would be good. The flags themselves are in flags/, by subject.
#ifndef GYRE_TOOLS_GYRED_GYRED_FLAGS_H_
#define GYRE_TOOLS_GYRED_GYRED_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_registry.h"

namespace gyre {

// Every subject, in the order in which --help prints them.
std::vector<FlagGroup> AllFlagGroups();

// What the flags ask for. INVALID_ARGUMENT names the first bad flag.
absl::StatusOr<BrokerServerOptions> OptionsFromFlags(const FlagRegistry& flags);

// --help: the flags by subject, with defaults. --helpfull: the libraries' as well.
std::string HelpText(const FlagRegistry& flags);

// Arguments that give another start every flag as it is now, live changes included, except
// that it takes nothing over. A flag file is not read again: it may be meant for another
// version.
std::vector<std::string> FlagsAsArguments();

bool HelpWanted();
bool VersionWanted();
bool CheckConfigWanted();

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_GYRED_FLAGS_H_
