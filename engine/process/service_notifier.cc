#include "engine/process/service_notifier.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"

namespace gyre {

ServiceNotifier ServiceNotifier::FromEnvironment() {
  const char* const address = std::getenv("NOTIFY_SOCKET");
  return ServiceNotifier(address == nullptr ? "" : address);
}

absl::Status ServiceNotifier::Ready() const {
  return Send(absl::StrCat("READY=1\nSTATUS=serving\nMAINPID=", getpid()));
}

absl::Status ServiceNotifier::Stopping() const { return Send("STOPPING=1\nSTATUS=draining"); }

absl::Status ServiceNotifier::ExtendTimeout(int64_t timeout_ms) const {
  return Send(absl::StrCat("EXTEND_TIMEOUT_USEC=", timeout_ms * 1000));
}

absl::Status ServiceNotifier::Status(absl::string_view text) const {
  return Send(absl::StrCat("STATUS=", text));
}

absl::Status ServiceNotifier::Send(absl::string_view state) const {
  if (!asked()) return absl::OkStatus();
  const auto failed = [this](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat("NOTIFY_SOCKET=", address_, ": ", why));
  };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (address_[0] != '/' && address_[0] != '@') return failed("neither a path nor an @name");
  if (address_.size() >= sizeof(address.sun_path)) return failed("the name is too long");
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());

  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failed(std::strerror(errno));
  // A manager that does not read holds nobody up for long.
  const timeval timeout = {2, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  const ssize_t sent = sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), size);
  if (sent != static_cast<ssize_t>(state.size())) return failed(std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace gyre
