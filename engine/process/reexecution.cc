#include "engine/process/reexecution.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/process/takeover_messages.h"

namespace gyre {
namespace {

constexpr char kVariable[] = "GYRE_INHERITED_SOCKETS";
// The program that runs, whatever lies at its path now.
constexpr char kProgram[] = "/proc/self/exe";

absl::Status SetCloseOnExec(int fd, bool close_on_exec) {
  if (fcntl(fd, F_SETFD, close_on_exec ? FD_CLOEXEC : 0) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("descriptor ", fd, ": ", std::strerror(errno)));
}

absl::StatusOr<std::vector<ListenSocket>> SocketsFrom(const std::vector<absl::string_view>& numbers,
                                                      absl::string_view lines) {
  std::vector<UniqueFd> fds;
  for (const absl::string_view number : numbers) {
    int fd = -1;
    if (!absl::SimpleAtoi(number, &fd) || fd < 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", number, "' is no descriptor"));
    }
    // What is not open is not owned, either.
    GYRE_RETURN_IF_ERROR(SetCloseOnExec(fd, true));
    fds.emplace_back(fd);
  }
  return SocketsOf(lines, std::move(fds));
}

}  // namespace

absl::Status ExecuteAgain(const std::vector<std::string>& arguments,
                          const std::vector<ListenSocket>& sockets) {
  std::string inherited = absl::StrCat(getpid());
  for (const ListenSocket& socket : sockets) {
    GYRE_RETURN_IF_ERROR(SetCloseOnExec(socket.fd.get(), false));
    absl::StrAppend(&inherited, " ", socket.fd.get());
  }
  absl::StrAppend(&inherited, DescribeSockets(sockets));
  setenv(kVariable, inherited.c_str(), /*overwrite=*/1);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(kProgram, argv.data());
  return absl::UnavailableError(absl::StrCat(kProgram, ": ", std::strerror(errno)));
}

absl::StatusOr<std::optional<std::vector<ListenSocket>>> TakeInheritedSockets() {
  const char* const value = std::getenv(kVariable);
  if (value == nullptr) return std::nullopt;
  const std::string inherited = value;
  unsetenv(kVariable);
  const size_t line_end = std::min(inherited.find('\n'), inherited.size());
  std::vector<absl::string_view> numbers =
      absl::StrSplit(absl::string_view(inherited).substr(0, line_end), ' ');
  int pid = 0;
  // Of another process, which left its environment to this one.
  if (!absl::SimpleAtoi(numbers[0], &pid) || pid != getpid()) return std::nullopt;
  numbers.erase(numbers.begin());
  // Else the kernel calls it "exe".
  pthread_setname_np(pthread_self(),
                     std::string(program_invocation_short_name).substr(0, 15).c_str());
  GYRE_ASSIGN_OR_RETURN(std::vector<ListenSocket> sockets,
                        SocketsFrom(numbers, absl::string_view(inherited).substr(line_end)),
                        kVariable);
  return std::optional<std::vector<ListenSocket>>(std::move(sockets));
}

}  // namespace gyre
