#include "tools/gyred/gyred_takeover.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/network/socket_server.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Until the other process answers; it is idle or has a thread for this.
constexpr int64_t kAnswerTimeoutMs = 10'000;

const char* AcceptModeOf(const BrokerServerOptions& options) {
  return options.network.accept_mode == AcceptMode::kReusePort ? "reuseport" : "acceptor";
}

}  // namespace

std::string TakeoverSocketOf(const BrokerServerOptions& options) {
  return options.takeover.socket.empty() ? absl::StrCat(options.log_dir, "/takeover.sock")
                                         : options.takeover.socket;
}

absl::StatusOr<std::optional<Takeover>> BeginTakeover(const BrokerServerOptions& options) {
  if (!options.takeover.wanted) return std::nullopt;
  absl::StatusOr<Takeover> takeover =
      Takeover::Begin(TakeoverSocketOf(options), AcceptModeOf(options),
                      std::min(kAnswerTimeoutMs, options.takeover.timeout_ms));
  if (absl::IsNotFound(takeover.status())) {
    LOG(INFO) << "nothing to take over (" << takeover.status().message() << "): starting as ever";
    return std::nullopt;
  }
  GYRE_RETURN_IF_ERROR(takeover.status());
  return std::optional<Takeover>(*std::move(takeover));
}

absl::StatusOr<TakenSockets> SocketsFor(const BrokerServerOptions& options, Takeover& takeover) {
  TakenSockets taken;
  for (ListenSocket& socket : takeover.sockets()) {
    const bool is_admin = options.admin.enabled && IsSocketOf(options.admin.endpoint, socket);
    (is_admin ? taken.admin : taken.listeners).push_back(std::move(socket));
  }
  takeover.sockets().clear();
  for (const ListenerOptions& listener : options.network.listeners) {
    const bool came = std::any_of(
        taken.listeners.begin(), taken.listeners.end(),
        [&](const ListenSocket& socket) { return IsSocketOf(listener.endpoint, socket); });
    if (came) continue;
    LOG(INFO) << "process " << takeover.pid() << " has no socket for "
              << listener.endpoint.ToString() << ": it is bound";
    GYRE_ASSIGN_OR_RETURN(ListenSocket socket,
                          OpenListenSocket(listener.endpoint, options.network.sockets,
                                           options.network.accept_mode == AcceptMode::kReusePort));
    taken.listeners.push_back(std::move(socket));
  }
  return taken;
}

std::unique_ptr<TakeoverPoint> OfferTakeover(const BrokerServerOptions& options,
                                             BrokerServer& server, GyredAdmin& admin,
                                             std::function<void()> on_commit) {
  TakeoverPoint::Options point;
  point.path = TakeoverSocketOf(options);
  point.accept_mode = AcceptModeOf(options);
  point.on_commit = std::move(on_commit);
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

}  // namespace gyre
