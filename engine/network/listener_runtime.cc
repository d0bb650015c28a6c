#include "engine/network/listener_runtime.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/listen_socket.h"
#include "glog/logging.h"

namespace gyre {

ListenerRuntime::ListenerRuntime(int index, const ListenerOptions& options,
                                 const FrameDecoder& default_decoder, NetworkPlane& plane,
                                 RequestHandler& handler, const Shared& shared)
    : options_(options),
      plane_(plane),
      handler_(handler),
      shared_(shared),
      num_network_threads_(NetworkThreadsOf(shared.options, options)) {
  listener_.index = index;
  listener_.frame_decoder =
      options.frame_decoder != nullptr ? options.frame_decoder : &default_decoder;
}

absl::Status ListenerRuntime::Open() {
  GYRE_RETURN_IF_ERROR(Bind());
  for (int i = 0; i < num_network_threads_; ++i) {
    GYRE_ASSIGN_OR_RETURN(Worker worker, MakeWorker());
    processor_set_.Add(worker.processor.get());
    workers_.push_back(std::move(worker));
  }
  return MakeAcceptor();
}

absl::Status ListenerRuntime::Bind() {
  GYRE_ASSIGN_OR_RETURN(ListenSocket socket,
                        OpenListenSocket(options_.endpoint, shared_.options.sockets, reuse_port()));
  listener_.bound = socket.bound;
  listener_.advertised_host = options_.advertised_host.empty() ? DefaultAdvertisedHost(socket.bound)
                                                               : options_.advertised_host;
  listener_.advertised_port =
      options_.advertised_port != 0 ? options_.advertised_port : socket.bound.port;
  listen_fds_.push_back(std::move(socket.fd));
  WarnIfOpen();
  // The others listen on the port that the first one got.
  while (reuse_port() && listen_fds_.size() < static_cast<size_t>(num_network_threads_)) {
    GYRE_ASSIGN_OR_RETURN(
        ListenSocket another,
        OpenListenSocket(listener_.bound, shared_.options.sockets, /*reuse_port=*/true));
    listen_fds_.push_back(std::move(another.fd));
  }
  return absl::OkStatus();
}

void ListenerRuntime::WarnIfOpen() const {
  const absl::StatusOr<SocketAddress> address = ToSocketAddress(listener_.bound);
  if (!address.ok() || address->is_loopback()) return;
  LOG(WARNING) << "listener " << listener_.bound.ToString()
               << " can be reached from other machines and authenticates nobody";
}

absl::StatusOr<ListenerRuntime::Worker> ListenerRuntime::MakeWorker() {
  ProcessorOptions options = shared_.options.processor;
  options.connection = shared_.connection_options;
  const int index = shared_.next_processor_index++;
  const std::string name = absl::StrCat(shared_.options.thread_name_prefix, "processor-", index);
  GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring, shared_.make_ring(name), name);
  char* const receive_base =
      shared_.slab.CarveRun(options.receive_buffer_bytes, options.receive_buffer_count);
  if (receive_base == nullptr) return absl::InternalError(absl::StrCat(name, ": no room"));
  Worker worker;
  worker.processor = std::make_unique<Processor>(
      index, options,
      Processor::Shared{plane_.channel(), handler_, shared_.slab, shared_.large_ranges,
                        shared_.metrics, shared_.request_metrics},
      std::move(ring), receive_base);
  worker.thread =
      std::make_unique<ThreadRunner>(name, *worker.processor, *worker.processor, shared_.clock);
  return worker;
}

absl::Status ListenerRuntime::MakeAcceptor() {
  if (reuse_port()) return absl::OkStatus();
  const std::string name =
      absl::StrCat(shared_.options.thread_name_prefix, "acceptor-", listener_.bound.listener_name);
  GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring, shared_.make_ring(name), name);
  acceptor_ = std::make_unique<Acceptor>(listener_, std::move(listen_fds_[0]), std::move(ring),
                                         shared_.quotas, processor_set_, shared_.metrics);
  acceptor_thread_ = std::make_unique<ThreadRunner>(name, *acceptor_, *acceptor_, shared_.clock);
  return absl::OkStatus();
}

absl::Status ListenerRuntime::StartProcessors(absl::Status* registered) {
  for (const Worker& worker : workers_) worker.thread->Start();
  for (const Worker& worker : workers_) {
    const Processor& processor = *worker.processor;
    GYRE_RETURN_IF_ERROR(processor.AwaitStart(), absl::StrCat("processor-", processor.index()));
    registered->Update(processor.registered_buffers());
  }
  return absl::OkStatus();
}

absl::Status ListenerRuntime::StartAccepting() {
  if (reuse_port()) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      auto socket = std::make_unique<ListenSocketHandover>();
      socket->listen_fd = std::move(listen_fds_[i]);
      socket->listener = &listener_;
      socket->quotas = &shared_.quotas;
      workers_[i].processor->EnqueueListenSocket(std::move(socket));
    }
    return absl::OkStatus();
  }
  acceptor_thread_->Start();
  GYRE_RETURN_IF_ERROR(acceptor_->AwaitStart(), acceptor_thread_->name());
  return absl::OkStatus();
}

void ListenerRuntime::StopAccepting() {
  if (acceptor_ != nullptr) acceptor_->StopAccepting();
  for (const Worker& worker : workers_) worker.processor->StopAccepting();
}

void ListenerRuntime::BeginDrain() {
  for (const Worker& worker : workers_) worker.processor->BeginDrain();
}

void ListenerRuntime::CloseAll() {
  for (const Worker& worker : workers_) worker.processor->CloseAll();
}

bool ListenerRuntime::accepting() const {
  // An acceptor that never ran has nothing to stop.
  if (acceptor_thread_ != nullptr && acceptor_thread_->running() && !acceptor_->stopped()) {
    return true;
  }
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.processor->accepting(); });
}

bool ListenerRuntime::processors_running() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.thread->running(); });
}

int64_t ListenerRuntime::open_connections() const {
  int64_t count = 0;
  for (const Worker& worker : workers_) count += worker.processor->open_connections();
  return count;
}

void ListenerRuntime::SetConnectionOptions(const ConnectionOptions& options) {
  for (const Worker& worker : workers_) worker.processor->EnqueueOptions(options);
}

void ListenerRuntime::AddTo(const std::shared_ptr<ConnectionList>& list) {
  for (const Worker& worker : workers_) worker.processor->EnqueueList(list);
}

void ListenerRuntime::JoinAcceptor() {
  if (acceptor_thread_ != nullptr) acceptor_thread_->Stop();
}

void ListenerRuntime::JoinProcessors() {
  for (const Worker& worker : workers_) worker.thread->RequestStop();
  for (const Worker& worker : workers_) worker.thread->Join();
}

}  // namespace gyre
