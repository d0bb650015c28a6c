#include "engine/process/takeover_messages.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace gyre {
namespace {

constexpr size_t kMaxTextBytes = 32 * 1024;

bool IsListening(int fd) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value == 1;
}

}  // namespace

std::string DescribeSockets(const std::vector<ListenSocket>& sockets) {
  std::string lines;
  for (const ListenSocket& socket : sockets) absl::StrAppend(&lines, "\n", socket.bound.ToString());
  return lines;
}

absl::StatusOr<std::vector<ListenSocket>> SocketsOf(absl::string_view lines,
                                                    std::vector<UniqueFd> fds) {
  std::vector<ListenSocket> sockets;
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    if (sockets.size() == fds.size()) return absl::InvalidArgumentError("too few sockets came");
    GYRE_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(line));
    UniqueFd& fd = fds[sockets.size()];
    if (!IsListening(fd.get())) {
      return absl::InvalidArgumentError(absl::StrCat(line, " does not listen"));
    }
    sockets.push_back(ListenSocket{std::move(fd), std::move(endpoint)});
  }
  if (sockets.size() != fds.size()) return absl::InvalidArgumentError("too many sockets came");
  return sockets;
}

absl::StatusOr<UnixName> UnixNameOf(const std::string& path) {
  UnixName name;
  name.address.sun_family = AF_UNIX;
  constexpr size_t kMaxBytes = sizeof(name.address.sun_path) - 1;
  std::string short_path = path;
  if (const size_t slash = path.rfind('/'); path.size() > kMaxBytes && slash != std::string::npos) {
    const std::string directory = path.substr(0, slash + 1);
    name.directory.Reset(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!name.directory.valid()) {
      const bool is_missing = errno == ENOENT || errno == ENOTDIR;
      const std::string text =
          absl::StrCat("takeover_socket=", path, ": ", directory, ": ", std::strerror(errno));
      return is_missing ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
    }
    short_path = absl::StrCat("/proc/self/fd/", name.directory.get(), path.substr(slash));
  }
  if (short_path.empty() || short_path.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("takeover_socket=", path,
                                                   ": the name of a socket has 1 to about 80 bytes "
                                                   "behind the last slash; give a shorter one"));
  }
  std::memcpy(name.address.sun_path, short_path.data(), short_path.size());
  return name;
}

bool PeerIsSameUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

UniqueFd PeerProcess(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return UniqueFd();
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
}

absl::Status SendPacket(int fd, absl::string_view text, const std::vector<int>& fds) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  std::vector<char> control(fds.empty() ? 0 : CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  if (sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(std::strerror(errno));
}

absl::StatusOr<TakeoverPacket> ReceivePacket(int fd) {
  std::string text(kMaxTextBytes, '\0');
  alignas(cmsghdr) char control[CMSG_SPACE(kTakeoverMaxSockets * sizeof(int))];
  iovec part = {text.data(), text.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return absl::UnavailableError("nothing yet");
  TakeoverPacket packet;
  if (size < 0) return packet;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(received);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::InvalidArgumentError("a message was cut (too long, or too few descriptors left)");
  }
  text.resize(static_cast<size_t>(size));
  packet.text = std::move(text);
  return packet;
}

bool Await(int fd, int64_t timeout_ms) {
  pollfd entry = {fd, POLLIN, 0};
  int ready;
  do {
    ready = poll(&entry, 1, static_cast<int>(timeout_ms));
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

absl::StatusOr<TakeoverPacket> AwaitPacket(int fd, int64_t timeout_ms) {
  if (!Await(fd, timeout_ms)) return absl::DeadlineExceededError("no answer");
  return ReceivePacket(fd);
}

}  // namespace gyre
