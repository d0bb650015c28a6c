#include "absl/status/status.h"
#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_bool(
    takeover, false,
    "Take the listening sockets over from the process that serves this data directory, "
    "let it drain, then serve: no connection is refused. It must not be stopped by a signal "
    "meanwhile. Without such a process, start as ever.");
DEFINE_string(takeover_socket, "",
              "Where a process offers its listening sockets, and --takeover looks for them. Empty: "
              "takeover.sock in the data directory.");
DEFINE_int64(
    takeover_timeout_ms, 60000,
    "How long --takeover waits for the other process to drain and release its data (more than its "
    "drain_timeout_ms), and "
    "how long a process that was taken over stands by to serve again, should its successor "
    "end before it serves.");
DEFINE_bool(check_config, false, "Check the flags, start nothing, touch nothing.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  options.takeover.wanted = FLAGS_takeover;
  options.takeover.socket = FLAGS_takeover_socket;
  options.takeover.timeout_ms = FLAGS_takeover_timeout_ms;
  return absl::OkStatus();
}

}  // namespace

FlagGroup ProgramFlags() {
  return {"This program",
          {
              FlagSpec("takeover"),
              FlagSpec("takeover_socket"),
              FlagSpec("takeover_timeout_ms").Between(1, FlagSpec::kInt32Max),
              FlagSpec("check_config"),
              FlagSpec("version").Help("Print the version."),
              FlagSpec("help").Help("Print this."),
              FlagSpec("helpfull").Help("Print this and the flags of the libraries."),
              FlagSpec("flagfile")
                  .Help("Read flags from a file, one per line; a # at its beginning or "
                        "behind a space begins a comment."),
          },
          &Apply};
}

}  // namespace gyre
