#include "tools/gyred/gyred_takeover.h"

#include <fcntl.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"
#include "engine/network/socket_server.h"
#include "engine/process/reexecution.h"
#include "engine/storage/data_directory.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Until the other process answers; it is idle or has a thread for this.
constexpr int64_t kAnswerTimeoutMs = 10'000;
// One successor that ends before it serves interrupts the service; the next has to wait.
constexpr int64_t kNextSuccessorNs = int64_t{60} * 1'000'000'000;

// Sockets of one mode are no good in the other, and who waits for another data directory
// to be released would open its own at once.
std::string TermsOf(const BrokerServerOptions& options) {
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(options.log_dir.c_str(), nullptr),
                                                         &std::free);
  return absl::StrCat(
      "accept_mode=",
      options.network.accept_mode == AcceptMode::kReusePort ? "reuseport" : "acceptor",
      " log_dirs=", path != nullptr ? path.get() : options.log_dir);
}

absl::Status NoTaker(const BrokerServerOptions& options, const Endpoint& endpoint, int pid) {
  std::string ours;
  if (endpoint.listener_name == "ADMIN") {
    ours = options.admin.enabled ? absl::StrCat("--admin_listener=", options.admin.endpoint.host,
                                                ":", options.admin.endpoint.port)
                                 : "no --admin_listener";
  } else {
    ours = "--listeners=";
    for (const ListenerOptions& listener : options.network.listeners) {
      absl::StrAppend(&ours, ours.back() == '=' ? "" : ",", listener.endpoint.ToString());
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--takeover: process ", pid, " listens on ", endpoint.ToString(), ", this one has ", ours,
      ": whoever connects there would be refused. It serves on; start with that listener too, or "
      "stop process ",
      pid, " and start without --takeover"));
}

// Without taking it, which would keep a process from it that starts.
bool IsLocked(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fd.valid() && fcntl(fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

absl::Status WithHolder(const BrokerServerOptions& options, absl::Status status) {
  if (!absl::IsAlreadyExists(status) || !IsLocked(DataDirectory::LockPathOf(options.log_dir))) {
    return status;
  }
  return absl::AlreadyExistsError(
      absl::StrCat(status.message(), ". Another process has the data directory ", options.log_dir,
                   ": it starts, serves or ends; --takeover takes over from one that serves"));
}

std::string TakeoverSocketOf(const BrokerServerOptions& options) {
  return options.takeover.socket.empty() ? absl::StrCat(options.log_dir, "/takeover.sock")
                                         : options.takeover.socket;
}

absl::StatusOr<std::optional<Takeover>> BeginTakeover(const BrokerServerOptions& options) {
  if (!options.takeover.wanted) return std::nullopt;
  absl::StatusOr<Takeover> takeover =
      Takeover::Begin(TakeoverSocketOf(options), TermsOf(options),
                      std::min(kAnswerTimeoutMs, options.takeover.timeout_ms));
  if (absl::IsNotFound(takeover.status())) {
    LOG(INFO) << "nothing to take over (" << takeover.status().message() << "): starting as ever";
    return std::nullopt;
  }
  GYRE_RETURN_IF_ERROR(takeover.status());
  if (takeover->drain_timeout_ms() >= options.takeover.timeout_ms) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--takeover_timeout_ms=", options.takeover.timeout_ms, ": process ", takeover->pid(),
        " may drain for drain_timeout_ms=", takeover->drain_timeout_ms(),
        ", and nobody would serve if this one gave up meanwhile. It serves on; give a longer "
        "--takeover_timeout_ms, or shorten its drain_timeout_ms (/flags)"));
  }
  return std::optional<Takeover>(*std::move(takeover));
}

absl::StatusOr<TakenSockets> SocketsFor(const BrokerServerOptions& options,
                                        std::vector<ListenSocket> sockets, int pid) {
  const std::vector<ListenerOptions>& listeners = options.network.listeners;
  TakenSockets taken;
  for (ListenSocket& socket : sockets) {
    const bool is_admin = options.admin.enabled && IsSocketOf(options.admin.endpoint, socket);
    const bool is_ours =
        is_admin || std::any_of(listeners.begin(), listeners.end(), [&](const auto& listener) {
          return IsSocketOf(listener.endpoint, socket);
        });
    if (!is_ours) return NoTaker(options, socket.bound, pid);
    (is_admin ? taken.admin : taken.listeners).push_back(std::move(socket));
  }
  for (const ListenerOptions& listener : listeners) {
    const bool came = std::any_of(
        taken.listeners.begin(), taken.listeners.end(),
        [&](const ListenSocket& socket) { return IsSocketOf(listener.endpoint, socket); });
    if (came) continue;
    LOG(INFO) << "process " << pid << " has no socket for " << listener.endpoint.ToString()
              << ": it is bound";
  }
  return taken;
}

std::unique_ptr<TakeoverPoint> OfferTakeover(const BrokerServerOptions& options,
                                             BrokerServer& server, GyredAdmin& admin,
                                             bool serves_again, std::function<void()> on_commit) {
  TakeoverPoint::Options point;
  point.path = TakeoverSocketOf(options);
  point.terms = TermsOf(options);
  point.drain_timeout_ms = [&server] { return server.drain_timeout_ms(); };
  point.on_commit = std::move(on_commit);
  if (serves_again) {
    point.refuse_until_ns = Clock::Real().NowNs() + kNextSuccessorNs;
    point.refusal =
        "the successor before this one ended before it served; find out why, and try again a "
        "minute after that";
  }
  point.sockets = [&server, &admin]() -> absl::StatusOr<std::vector<ListenSocket>> {
    GYRE_ASSIGN_OR_RETURN(std::vector<ListenSocket> sockets,
                          server.network().DuplicateListenSockets());
    GYRE_ASSIGN_OR_RETURN(std::vector<ListenSocket> pages, admin.DuplicateListenSockets());
    std::move(pages.begin(), pages.end(), std::back_inserter(sockets));
    return sockets;
  };
  absl::StatusOr<std::unique_ptr<TakeoverPoint>> opened =
      TakeoverPoint::Open(std::move(point), Clock::Real());
  if (opened.ok()) return *std::move(opened);
  LOG(WARNING) << "this process cannot be taken over: " << opened.status().message();
  return nullptr;
}

void StandBy(const BrokerServerOptions& options, TakeoverPoint& point, const StopSignals& signals,
             const std::vector<std::string>& arguments) {
  signals.Hold();
  LOG(INFO) << "all is released: standing by until the successor serves";
  switch (point.AwaitServing(options.takeover.timeout_ms, [&] { return signals.TryTake(); })) {
    case TakeoverPoint::Successor::kServes:
      return;
    case TakeoverPoint::Successor::kUnasked:
      LOG(INFO) << "ending by a signal, before the successor serves";
      return;
    case TakeoverPoint::Successor::kSilent:
      LOG(WARNING) << "the successor does not serve after takeover_timeout_ms="
                   << options.takeover.timeout_ms << "; it is left to itself";
      return;
    case TakeoverPoint::Successor::kEnded:
      LOG(WARNING) << "the successor ended before it served: serving again";
      LOG(ERROR) << "cannot serve again: " << ExecuteAgain(arguments, point.sockets()).message();
      return;
  }
}

}  // namespace gyre
