// A process that executes its program again, as itself: the same process id, the same
// program (also when its file was replaced meanwhile), and its listening sockets, whose
// backlogs keep the clients that wait. They come through the environment:
//
//   GYRE_INHERITED_SOCKETS = "PID FD FD…\nNAME://host:port\n…"
//
// Threads: the main thread, while there is no other.
#ifndef GYRE_ENGINE_PROCESS_REEXECUTION_H_
#define GYRE_ENGINE_PROCESS_REEXECUTION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/network/accept/listen_socket.h"

namespace gyre {

// `arguments` begins with the program's name. Does not return, but for an error.
absl::Status ExecuteAgain(const std::vector<std::string>& arguments,
                          const std::vector<ListenSocket>& sockets);

// None: this process is no such one. Its children do not inherit them again. An error
// when what is said to be left is no listening socket.
absl::StatusOr<std::optional<std::vector<ListenSocket>>> TakeInheritedSockets();

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_REEXECUTION_H_
