// The packets of a take-over: text, and descriptors beside it.
//
// Threads: any.
#ifndef GYRE_ENGINE_PROCESS_TAKEOVER_MESSAGES_H_
#define GYRE_ENGINE_PROCESS_TAKEOVER_MESSAGES_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"
#include "engine/network/accept/listen_socket.h"

namespace gyre {

inline constexpr char kTakeoverHello[] = "gyre-takeover 1 hello ";
inline constexpr char kTakeoverOffer[] = "gyre-takeover 1 offer ";
// Behind the process id of an offer.
inline constexpr char kTakeoverDrain[] = " drain_timeout_ms=";
inline constexpr char kTakeoverRefuse[] = "gyre-takeover 1 refuse ";
inline constexpr char kTakeoverCommit[] = "gyre-takeover 1 commit";
inline constexpr char kTakeoverDone[] = "gyre-takeover 1 done";
inline constexpr char kTakeoverServes[] = "gyre-takeover 1 serves";
// The kernel's bound for one packet (SCM_MAX_FD).
inline constexpr size_t kTakeoverMaxSockets = 253;

struct TakeoverPacket {
  std::string text;  // "": the peer is gone
  std::vector<UniqueFd> fds;
};

// "NAME://host:port" for each socket, in order, each on a line behind the first.
std::string DescribeSockets(const std::vector<ListenSocket>& sockets);
// Puts an offer's descriptors and lines together. INVALID_ARGUMENT when they do not
// match or one is no listening TCP socket.
absl::StatusOr<std::vector<ListenSocket>> SocketsOf(absl::string_view lines,
                                                    std::vector<UniqueFd> fds);

// Where the socket at a path is bound and found.
struct UnixName {
  sockaddr_un address = {};
  // The address is below it, where the path is longer than a socket's may be (107 bytes):
  // open until the socket is bound or connected.
  UniqueFd directory;
};
// INVALID_ARGUMENT when the path, or the last part of a longer one, is too long for a
// socket; NOT_FOUND when there is no such directory.
absl::StatusOr<UnixName> UnixNameOf(const std::string& path);
// Whether the process at the other end runs as this one's user.
bool PeerIsSameUser(int fd);
// A pidfd of the process at the other end: readable when it has ended, and every file it
// had open is closed. Not valid where it has no number here (another PID namespace).
UniqueFd PeerProcess(int fd);

absl::Status SendPacket(int fd, absl::string_view text, const std::vector<int>& fds);
// What is there now; UNAVAILABLE when nothing is.
absl::StatusOr<TakeoverPacket> ReceivePacket(int fd);
// Whether it is readable, or past being so, within `timeout_ms`.
bool Await(int fd, int64_t timeout_ms);
// DEADLINE_EXCEEDED after `timeout_ms`.
absl::StatusOr<TakeoverPacket> AwaitPacket(int fd, int64_t timeout_ms);

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_TAKEOVER_MESSAGES_H_
