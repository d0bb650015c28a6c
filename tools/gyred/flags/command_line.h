// gyred's command line and flag files, read so that whatever is wrong in either is one
// line that says where it is and what would be right. gflags holds the values; its own
// parser skips what it does not know in a flag file, and ends the process otherwise.
//
//   --NAME=VALUE, --NAME VALUE (on the command line alone), --SWITCH, --noSWITCH
//
// A flag file has one flag a line, blank lines and lines that begin with #; it may name
// another with --flagfile. Later flags win, wherever they stand.
//
// Threads: one, before others start.
#ifndef GYRE_TOOLS_GYRED_FLAGS_COMMAND_LINE_H_
#define GYRE_TOOLS_GYRED_FLAGS_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/gyred/flags/flag_registry.h"

namespace gyre {

// `arguments` without the program's name. INVALID_ARGUMENT: "PATH:LINE: …" for what stands
// in a file. Flags before the bad one are set then.
absl::Status ParseCommandLine(const std::vector<std::string>& arguments,
                              const FlagRegistry& registry);

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_FLAGS_COMMAND_LINE_H_
