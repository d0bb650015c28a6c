#include "engine/process/takeover.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/poll_until.h"
#include "engine/process/takeover_messages.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr int64_t kMs = 1'000'000;
// How often a wait looks whether it was interrupted.
constexpr int64_t kLookMs = 100;
// From the end of a process's connection to the end of the process.
constexpr int64_t kEndMs = 10'000;

absl::Status Failed(const std::string& path, absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("takeover_socket=", path, ": ", what, ": ", std::strerror(errno)));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Removes what a process left that is gone.
absl::Status RemoveLeftSocket(const std::string& path, const sockaddr_un& address) {
  struct stat file = {};
  if (lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return absl::OkStatus();
  const UniqueFd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno != ECONNREFUSED) {
    return absl::AlreadyExistsError(
        absl::StrCat("takeover_socket=", path,
                     ": another process listens there; give each data directory a socket of "
                     "its own"));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

// Where a file is, somebody listens: one that is refused takes the socket for one that was
// left. So the socket gets its name when it listens.
absl::StatusOr<UniqueFd> ListenAt(const std::string& path) {
  GYRE_ASSIGN_OR_RETURN(const UnixName name, UnixNameOf(path));
  GYRE_RETURN_IF_ERROR(RemoveLeftSocket(path, name.address));
  const std::string unready = absl::StrCat(DirectoryOf(path), "/.takeover-", getpid());
  GYRE_ASSIGN_OR_RETURN(const UnixName unready_name, UnixNameOf(unready));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed(path, "socket");
  // Nobody else may even connect. The file gets the mode that the socket has; a umask
  // would be that of the files, too, which other threads make meanwhile.
  if (fchmod(fd.get(), 0600) != 0) return Failed(path, "fchmod");
  unlink(unready.c_str());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&unready_name.address),
           sizeof(unready_name.address)) != 0) {
    return Failed(path, "bind");
  }
  absl::Status status;
  if (listen(fd.get(), 4) != 0) {
    status = Failed(path, "listen");
  } else if (link(unready.c_str(), path.c_str()) != 0 &&
             (errno == EEXIST || rename(unready.c_str(), path.c_str()) != 0)) {
    // Not every file system has hard links; those that do tell of another process.
    status = Failed(path, "link");
  }
  unlink(unready.c_str());
  GYRE_RETURN_IF_ERROR(status);
  return fd;
}

}  // namespace

absl::Status CheckTakeoverSocket(const std::string& path) {
  GYRE_RETURN_IF_ERROR(UnixNameOf(path).status());
  const std::string directory = DirectoryOf(path);
  if (access(directory.c_str(), W_OK | X_OK) != 0) return Failed(path, directory);
  struct stat file = {};
  if (lstat(path.c_str(), &file) == 0 && !S_ISSOCK(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("takeover_socket=", path, ": there is a file that is no socket"));
  }
  return absl::OkStatus();
}

// --- the running process ---------------------------------------------------------------

absl::StatusOr<std::unique_ptr<TakeoverPoint>> TakeoverPoint::Open(Options options,
                                                                   const Clock& clock) {
  WakeFd wake;
  if (!wake.valid()) return Failed(options.path, "eventfd");
  GYRE_ASSIGN_OR_RETURN(UniqueFd listen_fd, ListenAt(options.path));
  std::unique_ptr<TakeoverPoint> point(
      new TakeoverPoint(std::move(options), clock, std::move(listen_fd), std::move(wake)));
  GYRE_RETURN_IF_ERROR(point->StartThread());
  return point;
}

TakeoverPoint::TakeoverPoint(Options options, const Clock& clock, UniqueFd listen_fd, WakeFd wake)
    : options_(std::move(options)),
      clock_(clock),
      listen_fd_(std::move(listen_fd)),
      wake_(std::move(wake)) {}

TakeoverPoint::~TakeoverPoint() { Close(); }

absl::Status TakeoverPoint::StartThread() {
  thread_ = std::make_unique<ThreadRunner>("takeover", static_cast<ThreadBody&>(*this),
                                           static_cast<ThreadWaiter&>(*this), clock_);
  return thread_->Start();
}

void TakeoverPoint::Refuse(std::string reason) {
  if (thread_ == nullptr) return;
  // So that none commits in the middle of it.
  thread_->Stop();
  if (!committed()) refusal_ = std::move(reason);
  // Without a thread nobody is answered.
  if (const absl::Status status = StartThread(); !status.ok()) LOG(WARNING) << status.message();
}

void TakeoverPoint::Close() {
  if (thread_ == nullptr) return;
  thread_->Stop();
  thread_.reset();
  unlink(options_.path.c_str());
  listen_fd_.Reset();
  peer_.Reset();
  refused_.Reset();
  if (!committed()) sockets_.clear();
}

void TakeoverPoint::Done() {
  Close();
  if (!successor_.valid()) return;
  // One that is gone is missed in AwaitServing.
  (void)SendPacket(successor_.get(), kTakeoverDone, {});
}

TakeoverPoint::Successor TakeoverPoint::AwaitServing(int64_t timeout_ms,
                                                     const std::function<bool()>& interrupted) {
  Successor found = Successor::kSilent;
  const auto is_found = [&] {
    absl::StatusOr<TakeoverPacket> packet = AwaitPacket(successor_.get(), kLookMs);
    if (packet.ok() && packet->text == kTakeoverServes) {
      found = Successor::kServes;
    } else if (interrupted()) {
      found = Successor::kUnasked;
    } else if (packet.ok() && packet->text.empty()) {
      // The lock on the data may outlive the connection.
      if (process_.valid()) (void)Await(process_.get(), kEndMs);
      found = Successor::kEnded;
    }
    return found != Successor::kSilent;
  };
  PollUntil(is_found, timeout_ms);
  return found;
}

void TakeoverPoint::Wake() { wake_.Wake(); }

int64_t TakeoverPoint::NextDeadlineNs() const { return peer_deadline_ns_; }

void TakeoverPoint::Wait(int64_t now_ns, int64_t deadline_ns) {
  // One peer at a time; the next waits in the backlog. One that committed says no more.
  wake_.Wait(peer_.valid() ? peer_.get() : listen_fd_.get(), now_ns, deadline_ns);
}

bool TakeoverPoint::RunOnce(int64_t now_ns) {
  owner_.Assert();
  now_ns_ = now_ns;
  if (offered_ && !refusal_.empty()) {
    // Not closed before the end: a commit that lay unread then would take the refusal with it.
    (void)SendPacket(peer_.get(), absl::StrCat(kTakeoverRefuse, refusal_), {});
    refused_ = std::move(peer_);
    offered_ = false;
    sockets_.clear();
    peer_deadline_ns_ = kNever;
    return true;
  }
  if (!peer_.valid()) {
    UniqueFd peer(accept4(listen_fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!peer.valid()) return false;
    peer_deadline_ns_ = now_ns + options_.peer_timeout_ms * kMs;
    OnPeer(std::move(peer));
    return true;
  }
  absl::StatusOr<TakeoverPacket> packet = ReceivePacket(peer_.get());
  if (packet.ok()) {
    peer_deadline_ns_ = now_ns + options_.peer_timeout_ms * kMs;
    OnMessage(packet->text);
    return true;
  }
  if (!absl::IsUnavailable(packet.status())) {
    DropPeer(packet.status().message());
  } else if (now_ns >= peer_deadline_ns_) {
    DropPeer("it says nothing");
  } else {
    return false;
  }
  return true;
}

void TakeoverPoint::OnPeer(UniqueFd peer) {
  peer_ = std::move(peer);
  offered_ = false;
  if (!PeerIsSameUser(peer_.get())) DropPeer("it runs as another user");
}

void TakeoverPoint::OnMessage(absl::string_view message) {
  if (message.empty()) return DropPeer("it is gone");
  if (!offered_ && absl::ConsumePrefix(&message, kTakeoverHello)) {
    if (!refusal_.empty()) return RefusePeer(refusal_);
    if (now_ns_ < options_.refuse_until_ns) return RefusePeer(options_.refusal);
    if (message == options_.terms) return Offer();
    return RefusePeer(absl::StrCat("it runs with ", options_.terms, ", this one has ", message,
                                   "; start with the same"));
  }
  if (offered_ && message == kTakeoverCommit) {
    LOG(INFO) << "a successor took the listening sockets over";
    // One that has ended already is waited for by nobody.
    if (absl::StatusOr<UniqueFd> process = PeerProcess(peer_.get()); process.ok()) {
      process_ = *std::move(process);
    }
    peer_deadline_ns_ = kNever;
    offered_ = false;
    successor_ = std::move(peer_);
    refusal_ = absl::StrCat("process ", getpid(),
                            " is being taken over by another one already; wait until that serves");
    committed_.store(true, std::memory_order_release);
    options_.on_commit();
    return;
  }
  DropPeer("it does not speak this protocol");
}

void TakeoverPoint::Offer() {
  absl::StatusOr<std::vector<ListenSocket>> sockets = options_.sockets();
  absl::Status status = sockets.status();
  if (status.ok() && sockets->size() > kTakeoverMaxSockets) {
    status = absl::ResourceExhaustedError("there are more sockets than one message holds");
  }
  if (!status.ok()) return RefusePeer(status.message());
  std::vector<int> fds;
  for (const ListenSocket& socket : *sockets) fds.push_back(socket.fd.get());
  status = SendPacket(peer_.get(),
                      absl::StrCat(kTakeoverOffer, getpid(), kTakeoverDrain,
                                   options_.drain_timeout_ms ? options_.drain_timeout_ms() : 0,
                                   DescribeSockets(*sockets)),
                      fds);
  if (!status.ok()) return DropPeer(status.message());
  sockets_ = *std::move(sockets);
  offered_ = true;
}

void TakeoverPoint::RefusePeer(absl::string_view reason) {
  (void)SendPacket(peer_.get(), absl::StrCat(kTakeoverRefuse, reason), {});
  DropPeer(reason);
}

void TakeoverPoint::DropPeer(absl::string_view why) {
  LOG(WARNING) << "takeover_socket=" << options_.path << ": a peer is let go: " << why;
  peer_.Reset();
  if (!committed()) sockets_.clear();
  offered_ = false;
  peer_deadline_ns_ = kNever;
}

// --- the successor ---------------------------------------------------------------------

namespace {

// Not OK: the packet is a refusal; with the reason.
absl::Status RefusalIn(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kTakeoverRefuse)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the process there refuses: ", text));
}

}  // namespace

absl::StatusOr<Takeover> Takeover::Begin(const std::string& path, absl::string_view terms,
                                         int64_t timeout_ms) {
  GYRE_ASSIGN_OR_RETURN(const UnixName name, UnixNameOf(path));
  Takeover takeover;
  takeover.peer_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!takeover.peer_.valid()) return Failed(path, "socket");
  const int fd = takeover.peer_.get();
  // A hung process's backlog may be full.
  const timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name.address), sizeof(name.address)) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat("no process listens on ", path));
    }
    return Failed(path, "connect");
  }
  if (!PeerIsSameUser(fd)) {
    return absl::PermissionDeniedError(
        absl::StrCat("takeover_socket=", path, ": the process there runs as another user"));
  }
  takeover.process_ = PeerProcess(fd);
  absl::StatusOr<TakeoverPacket> packet = TakeoverPacket();
  if (SendPacket(fd, absl::StrCat(kTakeoverHello, terms), {}).ok()) {
    packet = AwaitPacket(fd, timeout_ms);
  }
  if (absl::IsDeadlineExceeded(packet.status())) {
    return absl::DeadlineExceededError(
        absl::StrCat("takeover_socket=", path,
                     ": the process there does not answer; it is left "
                     "as it is (stop it, then start without --takeover)"));
  }
  GYRE_RETURN_IF_ERROR(packet.status(), path);
  absl::string_view text = packet->text;
  if (text.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "takeover_socket=", path,
        ": the process there went instead of answering; it has ended or is being taken over"));
  }
  GYRE_RETURN_IF_ERROR(RefusalIn(text), absl::StrCat("takeover_socket=", path));
  const bool is_offer = absl::ConsumePrefix(&text, kTakeoverOffer);
  const size_t line_end = std::min(text.find('\n'), text.size());
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(text.substr(0, line_end), absl::MaxSplits(kTakeoverDrain, 1));
  if (!is_offer || !absl::SimpleAtoi(words.first, &takeover.pid_) ||
      (!words.second.empty() && !absl::SimpleAtoi(words.second, &takeover.drain_timeout_ms_))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "takeover_socket=", path, ": what listens there is no gyred that can be taken over"));
  }
  GYRE_ASSIGN_OR_RETURN(takeover.sockets_, SocketsOf(text.substr(line_end), std::move(packet->fds)),
                        path);
  return takeover;
}

absl::Status Takeover::Commit() {
  // One that ends or is taken by another has said so.
  if (absl::StatusOr<TakeoverPacket> packet = ReceivePacket(peer_.get()); packet.ok()) {
    GYRE_RETURN_IF_ERROR(RefusalIn(packet->text));
  }
  return Annotate(SendPacket(peer_.get(), kTakeoverCommit, {}),
                  absl::StrCat("process ", pid_, " waits for this one no more (it ends, or took ",
                               "it for hung), so nothing is taken over"));
}

absl::Status Takeover::AwaitDone(int64_t timeout_ms) {
  bool gone = false;  // the connection; the process may still end
  absl::Status status;
  // True: `status` says how it ended.
  const auto is_over = [&] {
    if (gone) {
      if (process_.valid() && !Await(process_.get(), kLookMs)) return false;
      LOG(WARNING) << "process " << pid_ << " ended without handing over; its logs are recovered";
      return true;
    }
    absl::StatusOr<TakeoverPacket> packet = AwaitPacket(peer_.get(), kLookMs);
    if (!packet.ok()) {
      if (absl::IsDeadlineExceeded(packet.status()) || absl::IsUnavailable(packet.status())) {
        return false;
      }
      status = packet.status();
      return true;
    }
    if (packet->text == kTakeoverDone) return true;
    status = RefusalIn(packet->text);
    gone = status.ok();
    return !gone;
  };
  if (PollUntil(is_over, timeout_ms)) return status;
  return absl::DeadlineExceededError(
      absl::StrCat("process ", pid_, gone ? " let this one go" : " handed its sockets over",
                   " and does not end; it still holds the data directory"));
}

void Takeover::Serves() {
  // One that is gone does not stand by.
  (void)SendPacket(peer_.get(), kTakeoverServes, {});
  peer_.Reset();
}

}  // namespace gyre
