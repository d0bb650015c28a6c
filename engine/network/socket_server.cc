#include "engine/network/socket_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/listener_overrides.h"
#include "engine/network/memory_plan.h"
#include "engine/network/network_health.h"
#include "engine/network/socket_server_state.h"
#include "glog/logging.h"

namespace gyre {

SocketServer::SocketServer(SocketServerOptions options, RequestHandler& handler)
    : state_(std::make_unique<State>(std::move(options), handler)) {}

SocketServer::~SocketServer() {
  CHECK(!state_->RunsHere()) << "a server is not destroyed by its own handler";
  state_->Stop();
  if (const int64_t held = state_->HeldByHandlers(); held > 0) {
    LOG(DFATAL) << held << " requests or throttle tokens outlive their server: answer, end or drop"
                << " them before it goes. What they refer to is never freed";
    (void)state_.release();
  }
}

absl::Status SocketServer::Open() {
  absl::Status status = state_->Open();
  if (!status.ok()) state_->Stop();
  return status;
}

absl::Status SocketServer::Start() {
  if (state_->serving && !state_->stopped) {
    return absl::FailedPreconditionError("the server was started before");
  }
  absl::Status status = Open();
  if (status.ok() && state_->draining) {
    status = absl::FailedPreconditionError("the server was told to drain before it was started");
  }
  if (status.ok()) status = state_->StartThreads();
  if (!status.ok()) {
    state_->Stop();
    return status;
  }
  state_->serving = true;
  state_->RegisterGauges();
  state_->TellDescriptors();
  return absl::OkStatus();
}

void SocketServer::AdoptListenSockets(std::vector<ListenSocket> sockets) {
  state_->adopted = std::move(sockets);
}

absl::StatusOr<std::vector<ListenSocket>> SocketServer::DuplicateListenSockets() {
  std::vector<ListenSocket> sockets;
  for (const auto& listener : state_->listeners) {
    GYRE_RETURN_IF_ERROR(listener->DuplicateSockets(&sockets));
  }
  return sockets;
}

const std::vector<Endpoint>& SocketServer::bound_endpoints() const {
  return state_->bound_endpoints;
}

ContinuationLane& SocketServer::continuations() { return state_->data_plane.channel(); }

BufferAllocator& SocketServer::response_buffers() { return state_->response_buffers; }

void SocketServer::BeginDrain() {
  state_->draining = true;
  state_->StopAccepting();
  for (const auto& listener : state_->listeners) listener->BeginDrain();
  if (RequestHandlerPool* handlers = state_->data_plane.handlers()) handlers->RefuseChanges();
}

bool SocketServer::Drain(int64_t deadline_ms) {
  if (!state_->started || state_->stopped) return true;
  BeginDrain();
  DCHECK(!state_->RunsHere()) << "Drain was called by a handler";
  if (state_->RunsHere()) {
    LOG(ERROR) << "Drain was called by a handler, which it would wait for: it does not wait";
    return false;
  }
  return state_->AwaitNoConnections(deadline_ms);
}

absl::Status SocketServer::ResizeNetworkThreads(int32_t count) {
  if (!state_->started) return absl::FailedPreconditionError("the server was not started");
  return state_->listener_threads.SetServersNumber(count);
}

absl::Status SocketServer::ResizeHandlerThreads(int32_t count) {
  if (!state_->serving) return absl::FailedPreconditionError("the server was not started");
  return state_->data_plane.handlers()->Resize(count);
}

int32_t SocketServer::network_threads() const {
  int32_t count = 0;
  for (const auto& listener : state_->listeners) count += listener->processors().size();
  return count;
}

int32_t SocketServer::network_threads(absl::string_view listener_name) const {
  for (const auto& listener : state_->listeners) {
    if (listener->listener().bound.listener_name == listener_name) {
      return listener->processors().size();
    }
  }
  return 0;
}

int32_t SocketServer::handler_threads() const {
  const RequestHandlerPool* const handlers = state_->data_plane.handlers();
  return handlers == nullptr ? 0 : handlers->size();
}

void SocketServer::Stop() {
  if (state_->stopped) return;
  DCHECK(!state_->RunsHere()) << "Stop was called by a handler";
  if (state_->RunsHere()) {
    LOG(ERROR) << "Stop was called by a handler, which it would wait for: it does nothing";
    return;
  }
  state_->Stop();
}

absl::Status SocketServer::Health() const {
  const State& state = *state_;
  GYRE_RETURN_IF_ERROR(CheckProcessorsGetOn(state.metrics.threads, state.options.thread_name_prefix,
                                            kStuckTurnMs, state.clock));
  GYRE_RETURN_IF_ERROR(
      CheckHandlersGetOn(state.data_plane, state.options.api_names, kStuckTurnMs, state.clock));
  for (const auto& plane : state.privileged_planes) {
    if (plane == nullptr) continue;
    GYRE_RETURN_IF_ERROR(
        CheckHandlersGetOn(*plane, state.options.api_names, kStuckTurnMs, state.clock));
  }
  return absl::OkStatus();
}

ConnectionQuotas& SocketServer::connection_quotas() { return state_->quotas; }

int64_t SocketServer::connection_count() const { return state_->quotas.total(); }

const ConnectionOptions& SocketServer::connection_options() const {
  return state_->connection_options;
}

absl::Status SocketServer::SetConnectionOptions(const ConnectionOptions& options) {
  State& state = *state_;
  GYRE_RETURN_IF_ERROR(CheckLiveOptions(state.options, options));
  GYRE_RETURN_IF_ERROR(state.CheckRequestFits(options.socket_request_max_bytes));
  state.connection_options = state.WithinLimits(options);
  state.response_buffers.SetHeapLimit(state.connection_options.response_budget_bytes);
  state.frame_decoder.set_max_payload_bytes(options.socket_request_max_bytes);
  state.max_frame_bytes.store(options.socket_request_max_bytes + kLengthBytes,
                              std::memory_order_relaxed);
  for (const auto& listener : state.listeners) {
    listener->SetConnectionOptions(state.connection_options);
  }
  return absl::OkStatus();
}

absl::Status SocketServer::SetLaneWeights(const std::vector<RequestLaneOptions>& lanes) {
  RequestChannel& channel = state_->data_plane.channel();
  const auto find = [&channel](const RequestLaneOptions& wanted) {
    int lane = 0;
    while (lane < channel.lane_count() && channel.lane_name(lane) != wanted.name) ++lane;
    return lane;
  };
  for (const RequestLaneOptions& lane : lanes) {
    if (find(lane) == channel.lane_count()) {
      return absl::NotFoundError(absl::StrCat("there is no lane ", lane.name));
    }
    GYRE_RETURN_IF_ERROR(CheckLaneWeight(lane));
  }
  for (const RequestLaneOptions& lane : lanes) channel.SetLaneWeight(find(lane), lane.weight);
  return absl::OkStatus();
}

absl::Status SocketServer::SetListenerOverrides(absl::string_view text) {
  if (!state_->started) return absl::FailedPreconditionError("the server was not started");
  std::vector<ListenerOptions> listeners = state_->options.listeners;
  for (ListenerOptions& listener : listeners) {
    listener.num_network_threads.reset();
    listener.max_connections.reset();
    listener.max_connection_creation_rate.reset();
  }
  GYRE_ASSIGN_OR_RETURN(const std::vector<ListenerOverrides> overrides,
                        ParseListenerOverrides(text));
  GYRE_RETURN_IF_ERROR(ApplyListenerOverrides(overrides, &listeners));
  GYRE_RETURN_IF_ERROR(state_->listener_threads.SetOwnNumbers(listeners));
  for (const ListenerOptions& listener : listeners) {
    const std::string& name = listener.endpoint.listener_name;
    GYRE_RETURN_IF_ERROR(state_->quotas.SetListenerMaxConnections(name, listener.max_connections));
    GYRE_RETURN_IF_ERROR(state_->quotas.SetListenerMaxConnectionCreationRate(
        name, listener.max_connection_creation_rate));
  }
  return absl::OkStatus();
}

std::vector<ConnectionInfo> SocketServer::ListConnections(size_t max_count, int64_t timeout_ms) {
  State& state = *state_;
  if (!state.started || state.stopped) return {};
  // One for this thread, until every processor was asked.
  const auto list = std::make_shared<ConnectionList>(max_count, 1);
  for (const auto& listener : state.listeners) listener->AddTo(list);
  list->OnProcessorDone();
  return list->Await(timeout_ms);
}

}  // namespace gyre
