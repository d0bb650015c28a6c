#include "engine/network/listener_runtime.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/accept/listen_socket.h"
#include "glog/logging.h"

namespace gyre {

ListenerRuntime::ListenerRuntime(int index, const ListenerOptions& options,
                                 const FrameDecoder& default_decoder, NetworkPlane& plane,
                                 RequestHandler& handler, const Shared& shared)
    : options_(options),
      plane_(plane),
      shared_(shared),
      processors_(
          ProcessorPool::Config{.thread_name_prefix = shared.options.thread_name_prefix,
                                .options = shared.options.processor,
                                .ring_factory = shared.make_ring,
                                .next_index = &shared.next_processor_index},
          Processor::Shared{plane.channel(), handler, shared.slab, shared.large_ranges,
                            shared.metrics, shared.request_metrics, options.endpoint.listener_name},
          shared.clock) {
  listener_.index = index;
  listener_.sheds_when_full = options.when_full == ListenerOptions::WhenFull::kShed;
  listener_.max_connections_name = options.max_connections_name;
  listener_.max_frame_bytes = &shared.max_frame_bytes;
  listener_.frame_decoder =
      options.frame_decoder != nullptr ? options.frame_decoder : &default_decoder;
}

absl::Status ListenerRuntime::Open() {
  GYRE_RETURN_IF_ERROR(Bind());
  GYRE_RETURN_IF_ERROR(processors_.Open(NetworkThreadsOf(shared_.options, options_)));
  return MakeAcceptor();
}

absl::Status ListenerRuntime::Bind() {
  listener_.bound = options_.endpoint;
  for (ListenSocket& socket : shared_.adopted) {
    if (!IsSocketOf(options_.endpoint, socket)) continue;
    listener_.bound = socket.bound;
    listen_fds_.push_back(std::move(socket.fd));
    // With reuse_port every socket has clients in its backlog.
    if (!reuse_port()) break;
  }
  // With reuse_port the others listen on the port that the first one got.
  const int32_t wanted = reuse_port() ? NetworkThreadsOf(shared_.options, options_) : 1;
  while (listen_fds_.size() < static_cast<size_t>(wanted)) {
    GYRE_ASSIGN_OR_RETURN(ListenSocket socket,
                          BindListenSocket(listener_.bound, shared_.options.sockets, reuse_port()));
    listener_.bound = socket.bound;
    listen_fds_.push_back(std::move(socket.fd));
  }
  for (const UniqueFd& fd : listen_fds_) GYRE_RETURN_IF_ERROR(Keep(fd));
  listener_.advertised_host = options_.advertised_host.empty()
                                  ? DefaultAdvertisedHost(listener_.bound)
                                  : options_.advertised_host;
  listener_.advertised_port =
      options_.advertised_port != 0 ? options_.advertised_port : listener_.bound.port;
  WarnIfOpen();
  return absl::OkStatus();
}

absl::Status ListenerRuntime::Keep(const UniqueFd& fd) {
  UniqueFd duplicate(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("listener ", listener_.bound.ToString(), ": dup: ", std::strerror(errno)));
  }
  MutexLock lock(mutex_);
  kept_fds_.push_back(std::move(duplicate));
  return absl::OkStatus();
}

absl::Status ListenerRuntime::DuplicateSockets(std::vector<ListenSocket>* sockets) {
  MutexLock lock(mutex_);
  if (kept_fds_.empty()) return absl::FailedPreconditionError("it does not accept any more");
  for (const UniqueFd& fd : kept_fds_) {
    UniqueFd duplicate(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!duplicate.valid()) return absl::ResourceExhaustedError(std::strerror(errno));
    sockets->push_back(ListenSocket{std::move(duplicate), listener_.bound});
  }
  return absl::OkStatus();
}

void ListenerRuntime::WarnIfOpen() const {
  const absl::StatusOr<SocketAddress> address = ToSocketAddress(listener_.bound);
  if (!address.ok() || address->is_loopback()) return;
  LOG(WARNING) << "listener " << listener_.bound.ToString()
               << " can be reached from other machines and authenticates nobody";
  if (options_.advertised_host.empty() && listener_.advertised_host != listener_.bound.host) {
    LOG(WARNING) << "listener " << listener_.bound.ToString() << " sends clients to "
                 << listener_.advertised_host
                 << ", which is this machine alone; see --advertised_listeners";
  }
}

absl::Status ListenerRuntime::MakeAcceptor() {
  if (reuse_port()) return absl::OkStatus();
  const std::string name =
      absl::StrCat(shared_.options.thread_name_prefix, "acceptor-", listener_.bound.listener_name);
  GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring, shared_.make_ring(name), name);
  acceptor_ = std::make_unique<Acceptor>(listener_, std::move(listen_fds_[0]), std::move(ring),
                                         shared_.quotas, processors_.set(), shared_.metrics);
  acceptor_thread_ = std::make_unique<ThreadRunner>(name, *acceptor_, *acceptor_, shared_.clock);
  return absl::OkStatus();
}

absl::Status ListenerRuntime::StartProcessors(absl::Status* registered) {
  GYRE_RETURN_IF_ERROR(processors_.Start());
  registered->Update(processors_.registered_buffers());
  return absl::OkStatus();
}

absl::Status ListenerRuntime::StartAccepting() {
  {
    MutexLock lock(mutex_);
    for (const UniqueFd& fd : kept_fds_) {
      GYRE_RETURN_IF_ERROR(gyre::Listen(fd, listener_.bound, shared_.options.sockets));
    }
  }
  if (reuse_port()) {
    for (UniqueFd& listen_fd : listen_fds_) {
      Listen(std::move(listen_fd));
    }
    return absl::OkStatus();
  }
  GYRE_RETURN_IF_ERROR(acceptor_thread_->Start());
  GYRE_RETURN_IF_ERROR(acceptor_->AwaitStart(), acceptor_thread_->name());
  return absl::OkStatus();
}

void ListenerRuntime::StopAccepting() {
  {
    MutexLock lock(mutex_);
    kept_fds_.clear();
  }
  if (acceptor_ != nullptr) acceptor_->StopAccepting();
  processors_.StopAccepting();
}

void ListenerRuntime::BeginDrain() { processors_.BeginDrain(); }

void ListenerRuntime::CloseAll() { processors_.CloseAll(); }

bool ListenerRuntime::accepting() const {
  // An acceptor that never ran has nothing to stop.
  if (acceptor_thread_ != nullptr && acceptor_thread_->running() && !acceptor_->stopped()) {
    return true;
  }
  return processors_.accepting();
}

bool ListenerRuntime::processors_running() const { return processors_.running(); }

void ListenerRuntime::SetConnectionOptions(const ConnectionOptions& options) {
  processors_.SetConnectionOptions(options);
}

void ListenerRuntime::AddTo(const std::shared_ptr<ConnectionList>& list) {
  processors_.AddTo(list);
}

absl::Status ListenerRuntime::CheckNetworkThreads(int32_t count) const {
  return Annotate(processors_.CheckResize(count),
                  absl::StrCat("listener ", listener_.bound.listener_name));
}

absl::Status ListenerRuntime::ResizeNetworkThreads(int32_t count) {
  GYRE_RETURN_IF_ERROR(processors_.Resize(count),
                       absl::StrCat("listener ", listener_.bound.listener_name));
  // Those that shrinking left over are moved; they are closed only with the listener.
  while (reuse_port() && listening_ < count) {
    GYRE_ASSIGN_OR_RETURN(
        ListenSocket socket,
        OpenListenSocket(listener_.bound, shared_.options.sockets, /*reuse_port=*/true));
    GYRE_RETURN_IF_ERROR(Keep(socket.fd));
    Listen(std::move(socket.fd));
  }
  return absl::OkStatus();
}

void ListenerRuntime::Listen(UniqueFd listen_fd) {
  auto socket = std::make_unique<ListenSocketHandover>();
  socket->listen_fd = std::move(listen_fd);
  socket->listener = &listener_;
  socket->quotas = &shared_.quotas;
  ++listening_;
  processors_.set().PlaceListenSocket(std::move(socket));
}

void ListenerRuntime::JoinAcceptor() {
  if (acceptor_thread_ != nullptr) acceptor_thread_->Stop();
}

}  // namespace gyre
