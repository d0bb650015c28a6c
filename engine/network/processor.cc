#include "engine/network/processor.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace gyre {

using uring::Completion;
using uring::OpKind;

Processor::Processor(int index, const ProcessorOptions& options, const Shared& shared,
                     std::unique_ptr<uring::Ring> ring, char* receive_base)
    : index_(index),
      options_(options),
      charges_memory_(shared.channel.memory().capacity_bytes() != MemoryPool::kUnbounded),
      channel_(shared.channel),
      handler_(shared.handler),
      slab_(shared.slab),
      large_ranges_(shared.large_ranges),
      metrics_(shared.metrics),
      request_metrics_(shared.request_metrics),
      ring_(std::move(ring)),
      limits_{options_.connection.receive_ahead_bytes,
              options_.connection.max_in_flight_requests_per_connection,
              ring_->recv_is_multishot()},
      receive_buffers_(*ring_, *this, receive_base, options_.receive_buffer_bytes,
                       options_.receive_buffer_count),
      table_(options_.max_connections, limits_),
      sender_(*this, *ring_, slab_, options_, metrics_),
      idle_wheel_(channel_.clock().NowNs()),
      completions_(kMaxCompletions) {}

Processor::~Processor() {
  // Never started, or stopped with connections left: what the handlers still hold
  // is dropped with the table.
  channel_.ForgetWaiter(this);
  while (MpscNode* node = new_connections_.Pop()) {
    std::unique_ptr<NewConnection> connection(static_cast<NewConnection*>(node));
    ring_->Close(connection->fd);
  }
}

// --- any thread ----------------------------------------------------------------

void Processor::WakeIfParked() {
  // seq_cst: see the mailboxes. Only the first of several producers wakes.
  if (parked_.load(std::memory_order_seq_cst) &&
      parked_.exchange(false, std::memory_order_seq_cst)) {
    ring_->Wake();
  }
}

void Processor::EnqueueConnection(std::unique_ptr<NewConnection> connection) {
  open_connections_.fetch_add(1, std::memory_order_acq_rel);
  new_connections_.Push(connection.release());
  WakeIfParked();
}

void Processor::EnqueueResponse(ConnectionRequest* request) {
  responses_.Push(request);
  WakeIfParked();
}

void Processor::EnqueueRunStarted(RequestRun* run) {
  started_runs_.Push(run);
  WakeIfParked();
}

void Processor::EnqueueRoom() {
  room_.store(true, std::memory_order_seq_cst);
  WakeIfParked();
}

void Processor::BeginDrain() {
  drain_requested_.store(true, std::memory_order_seq_cst);
  WakeIfParked();
}

void Processor::CloseAll() {
  close_requested_.store(true, std::memory_order_seq_cst);
  WakeIfParked();
}

// --- the owner's thread ----------------------------------------------------------

void Processor::OnThreadStart() {
  owner_.Bind();
  start_status_ = ring_->Attach();
  if (start_status_.ok()) start_status_ = receive_buffers_.Provide();
  started_.store(true, std::memory_order_release);
  started_.notify_all();
}

void Processor::OnThreadStop() {
  owner_.Assert();
  channel_.ForgetWaiter(this);
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    // Past the deadline of Stop: the kernel drops what is in flight with the ring.
    static_cast<IntrusiveListNode<StarvedTag>&>(slot).Unlink();
    static_cast<IntrusiveListNode<RangeTag>&>(slot).Unlink();
    static_cast<IntrusiveListNode<ParkedTag>&>(slot).Unlink();
    static_cast<IntrusiveListNode<TurnTag>&>(slot).Unlink();
    idle_wheel_.Cancel(&slot);
    if (slot.memory_wait_pending && channel_.memory().CancelWait(&slot.memory_wait)) {
      slot.memory_wait_pending = false;
    }
    if (slot.fd >= 0 && !slot.connection.closed()) ring_->Close(slot.fd);
    slot.quota.Release();
  });
  sender_.Stop();
  owner_.Unbind();
}

bool Processor::RunOnce(int64_t now_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return false;
  now_ns_ = now_ns;
  // With turns queued nobody waits in the ring, so it is looked at here.
  if (reaped_ == 0 && (options_.reap_every_turn || !turns_.empty())) {
    reaped_ = ring_->SubmitAndReap(absl::MakeSpan(completions_), 0);
  }
  const size_t reaped = std::exchange(reaped_, 0);
  for (size_t i = 0; i < reaped; ++i) OnCompletion(completions_[i]);

  bool worked = reaped > 0;
  if (DrainMailboxes()) worked = true;
  if (receive_buffers_.ReturnReleased() > 0 || !starved_.empty()) RearmStarved();
  ExpireIdle();
  if (!range_waiters_.empty() && now_ns_ >= range_retry_ns_) RetryLargeRanges();
  // Those that were in line when the turn began.
  if (!turns_.empty()) {
    worked = true;
    Slot* const last = turns_.back();
    for (;;) {
      Slot* slot = turns_.PopFront();
      slot->sending = Slot::SendOperation::kNone;
      slot->turn_bytes = 0;
      slot->connection.OnSendIdle();
      const bool was_last = slot == last;
      Settle(*slot);
      if (was_last || turns_.empty()) break;
    }
  }

  next_deadline_ns_ = idle_wheel_.NextExpiryNs();
  if (!range_waiters_.empty()) next_deadline_ns_ = std::min(next_deadline_ns_, range_retry_ns_);
  if (options_.reap_every_turn) return worked;
  return !turns_.empty() || !MailboxesEmpty();
}

int64_t Processor::NextDeadlineNs() const {
  owner_.Assert();
  return next_deadline_ns_;
}

void Processor::Wait(int64_t now_ns, int64_t deadline_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return;
  int64_t wait_ns = -1;
  if (deadline_ns != ThreadBody::kNever) {
    // The ring takes microseconds at best; waking early would only loop.
    wait_ns = std::max<int64_t>(0, deadline_ns - now_ns);
  }
  parked_.store(true, std::memory_order_seq_cst);
  if (!MailboxesEmpty()) wait_ns = 0;
  reaped_ = ring_->SubmitAndReap(absl::MakeSpan(completions_), wait_ns);
  parked_.store(false, std::memory_order_seq_cst);
}

bool Processor::MailboxesEmpty() const {
  return responses_.Empty() && started_runs_.Empty() && new_connections_.Empty() &&
         granted_.Empty() && !room_.load(std::memory_order_seq_cst) &&
         drain_requested_.load(std::memory_order_seq_cst) == draining_ &&
         close_requested_.load(std::memory_order_seq_cst) == closing_all_ &&
         (starved_.empty() || !receive_buffers_.has_released());
}

bool Processor::DrainMailboxes() {
  bool any = false;
  while (MpscNode* node = responses_.Pop()) {
    auto* request = static_cast<ConnectionRequest*>(static_cast<Request*>(node));
    Slot& slot = table_.At(request->slot());
    OnResponse(request);
    Settle(slot);
    any = true;
  }
  while (MpscNode* node = started_runs_.Pop()) {
    OnRunStarted(static_cast<RequestRun*>(node));
    any = true;
  }
  while (MpscNode* node = granted_.Pop()) {
    OnMemoryGranted(*static_cast<Slot::MemoryWait*>(node)->slot);
    any = true;
  }
  if (room_.load(std::memory_order_seq_cst)) {
    room_.store(false, std::memory_order_seq_cst);
    OnRoom();
    any = true;
  }
  for (int i = 0; i < kMaxNewPerTurn; ++i) {
    MpscNode* node = new_connections_.Pop();
    if (node == nullptr) break;
    OnNewConnection(std::unique_ptr<NewConnection>(static_cast<NewConnection*>(node)));
    any = true;
  }
  if (!draining_ && drain_requested_.load(std::memory_order_seq_cst)) {
    draining_ = true;
    table_.ForEach([this](Slot& slot) {
      owner_.Assert();
      slot.connection.BeginDrain();
      Settle(slot);
    });
    any = true;
  }
  if (!closing_all_ && close_requested_.load(std::memory_order_seq_cst)) {
    closing_all_ = true;
    table_.ForEach([this](Slot& slot) {
      owner_.Assert();
      slot.connection.Abort();
      Settle(slot);
    });
    any = true;
  }
  return any;
}

// --- connections -----------------------------------------------------------------

void Processor::OnNewConnection(std::unique_ptr<NewConnection> connection) {
  Slot* slot = draining_ || closing_all_ ? nullptr : table_.Acquire();
  if (slot == nullptr) {
    ring_->Close(connection->fd);
    connection->quota.Release();
    open_connections_.fetch_sub(1, std::memory_order_acq_rel);
    return;
  }
  const Listener& listener = *connection->listener;
  slot->fd = connection->fd;
  slot->quota = std::move(connection->quota);
  slot->transport = &plaintext_;
  slot->decoder = listener.frame_decoder;
  slot->memory_wait.processor = this;
  slot->memory_wait.slot = slot;
  slot->last_progress_ns = now_ns_;
  slot->session.listener_index = listener.index;
  slot->session.listener_name = listener.bound.listener_name;
  slot->session.advertised_host = listener.advertised_host;
  slot->session.advertised_port = listener.advertised_port;
  slot->session.peer = connection->peer.ToString();
  metrics_.connections_accepted.Increment();
  metrics_.connections.Increment();
  if (IdleNs() >= 0) {
    slot->deadline_ns = now_ns_ + IdleNs();
    idle_wheel_.Add(slot);
  }
  Settle(*slot);
}

void Processor::Settle(Slot& slot) {
  for (;;) {
    switch (slot.connection.Decide()) {
      case ConnectionStep::kNone:
        return;
      case ConnectionStep::kReceive:
        Receive(slot);
        break;
      case ConnectionStep::kReceiveDirect:
        ReceiveDirect(slot);
        break;
      case ConnectionStep::kCancelReceive:
        CancelReceive(slot);
        break;
      case ConnectionStep::kWatchHangup:
        slot.connection.OnHangupWatchArmed();
        slot.connection.OnOperationSubmitted();
        // No event is asked for: POLLERR and POLLHUP are always told.
        ring_->Poll(slot.TokenFor(OpKind::kPoll, Operation::kHangup), slot.fd, 0);
        break;
      case ConnectionStep::kDispatch:
        DispatchFrames(slot);
        break;
      case ConnectionStep::kSend:
        sender_.Continue(slot);
        break;
      case ConnectionStep::kDropResponses:
        DropResponses(slot);
        break;
      case ConnectionStep::kShutdown:
        Shutdown(slot);
        break;
      case ConnectionStep::kClose:
        CloseSocket(slot);
        break;
      case ConnectionStep::kFree:
        Free(slot);
        return;
    }
  }
}

void Processor::OnCompletion(const Completion& completion) {
  const uring::Token& token = completion.token;
  Slot& slot = table_.At(token.slot);
  if (!ConnectionTable::IsCurrent(slot, token)) {
    // Cannot be: a slot is freed only with nothing in flight.
    LOG_IF(DFATAL, true) << "completion of a freed connection, kind "
                         << static_cast<int>(token.kind);
    if (completion.buffer_id != uring::kNoBuffer) {
      receive_buffers_.Take(completion.buffer_id, 0);
    }
    return;
  }
  if (!completion.more) slot.connection.OnOperationRetired();
  switch (token.kind) {
    case OpKind::kCancel:
      break;
    case OpKind::kRecv:
    case OpKind::kPoll:
    case OpKind::kSend:
    case OpKind::kSplice:
    case OpKind::kFile:
      switch (ConnectionTable::OperationOf(token)) {
        case Operation::kReceive:
          OnReceive(slot, completion);
          break;
        case Operation::kReceiveDirect:
          OnReceiveDirect(slot, completion);
          break;
        case Operation::kReadable:
          OnReadable(slot, completion);
          break;
        case Operation::kHangup:
          OnHangup(slot, completion);
          break;
        case Operation::kSend:
        case Operation::kWritable:
        case Operation::kSplice:
        case Operation::kFileRead:
          if (completion.result.bytes() > 0) slot.last_progress_ns = now_ns_;
          sender_.OnCompletion(slot, ConnectionTable::OperationOf(token), completion);
          break;
      }
      break;
    case OpKind::kInternal:
    case OpKind::kWake:
    case OpKind::kAccept:
    case OpKind::kSendZeroCopy:
    case OpKind::kTimer:
    case OpKind::kConnect:
      DCHECK(false) << "kind " << static_cast<int>(token.kind);
      break;
  }
  Settle(slot);
}

void Processor::ReportInput(Slot& slot, bool news) {
  slot.connection.OnInput(slot.receive.unparsed_bytes(), slot.receive.wants_direct(),
                          slot.receive.in_large_frame(), slot.receive.mid_frame(), news);
}

// --- receiving -------------------------------------------------------------------

void Processor::Receive(Slot& slot) {
  slot.connection.OnReceiveArmed(Connection::Receiving::kProvided);
  slot.connection.OnOperationSubmitted();
  ring_->RecvProvided(slot.TokenFor(OpKind::kRecv, Operation::kReceive), slot.fd);
}

void Processor::CancelReceive(Slot& slot) {
  metrics_.receive_cancelled.Increment();
  slot.connection.OnCancelSent();
  CancelOperation(slot, OpKind::kRecv, Operation::kReceive);
}

void Processor::CancelOperation(Slot& slot, OpKind kind, Operation operation) {
  slot.connection.OnOperationSubmitted();
  ring_->Cancel(slot.TokenFor(OpKind::kCancel, operation), slot.TokenFor(kind, operation));
}

void Processor::OnReceive(Slot& slot, const Completion& completion) {
  Connection& connection = slot.connection;
  if (!completion.more) connection.OnReceiveRetired();
  const IoResult result = completion.result;
  Buffer bytes;
  if (completion.buffer_id != uring::kNoBuffer) {
    bytes = receive_buffers_.Take(completion.buffer_id, static_cast<uint32_t>(result.bytes()));
  }
  if (connection.shutdown_done()) return;
  if (result.bytes() > 0) {
    slot.last_progress_ns = now_ns_;
    metrics_.bytes_received.Add(result.bytes());
    if (receive_buffers_.lent_too_many()) {
      metrics_.receive_copied_out.Increment();
      SlotMemory memory(*this, slot);
      Buffer copy = memory.Allocate(bytes.size_bytes());
      std::copy_n(bytes.data(), bytes.size_bytes(), copy.data());
      bytes = std::move(copy);
    }
    Buffer plain;
    if (!slot.transport->Unwrap(std::move(bytes), &plain)) {
      LogClose(slot, "the transport's protocol was broken");
      connection.Abort();
      return;
    }
    SlotMemory memory(*this, slot);
    slot.receive.Append(std::move(plain), memory);
    ReportInput(slot, true);
    return;
  }
  if (result.ok()) {
    connection.OnPeerFinished();
    return;
  }
  switch (result.error()) {
    case ENOBUFS:
      metrics_.receive_starved.Increment();
      if (connection.starved()) return;
      connection.SetStarved(true);
      starved_.PushBack(&slot);
      receive_buffers_.SetStarved(true);
      return;
    case ECANCELED:
    case EAGAIN:
    case EINTR:
      return;  // armed again when the connection wants it
    default:
      OnPeerLost(slot);
      return;
  }
}

void Processor::ReceiveDirect(Slot& slot) {
  slot.connection.OnReceiveArmed(Connection::Receiving::kDirect);
  if (std::exchange(slot.socket_readable, false)) return StartDirect(slot);
  // Memory is charged once bytes are known to wait, so that an announced frame
  // that does not come holds none.
  slot.connection.OnOperationSubmitted();
  ring_->Poll(slot.TokenFor(OpKind::kPoll, Operation::kReadable), slot.fd, POLLIN);
}

void Processor::OnReadable(Slot& slot, const Completion& completion) {
  if (slot.connection.shutdown_done()) {
    slot.connection.OnReceiveRetired();
    return;
  }
  if (!completion.result.ok()) {
    slot.connection.OnReceiveRetired();
    return;
  }
  StartDirect(slot);
}

void Processor::StartDirect(Slot& slot) {
  SlotMemory memory(*this, slot);
  const int64_t charged_bytes = slot.receive.TryChargeDirect(kDirectMaxBytes, memory);
  if (charged_bytes == 0) {
    slot.connection.OnReceiveRetired();
    slot.socket_readable = true;
    WaitForMemory(slot, memory.refused_bytes);
    return;
  }
  SpendGranted(slot);
  slot.direct_charged_bytes = charged_bytes;
  const NetworkReceive::Target target =
      slot.receive.direct_target(static_cast<size_t>(charged_bytes));
  slot.connection.OnOperationSubmitted();
  ring_->RecvInto(slot.TokenFor(OpKind::kRecv, Operation::kReceiveDirect), slot.fd, target.to,
                  target.size_bytes);
}

void Processor::OnReceiveDirect(Slot& slot, const Completion& completion) {
  Connection& connection = slot.connection;
  connection.OnReceiveRetired();
  const IoResult result = completion.result;
  SlotMemory memory(*this, slot);
  const int64_t unfilled = std::exchange(slot.direct_charged_bytes, 0) - result.bytes();
  if (unfilled > 0) slot.receive.UnchargeDirect(unfilled, memory);
  if (connection.shutdown_done()) return;
  if (result.bytes() > 0) {
    slot.last_progress_ns = now_ns_;
    metrics_.bytes_received.Add(result.bytes());
    slot.socket_readable = completion.socket_nonempty;
    slot.receive.OnDirectBytes(static_cast<uint32_t>(result.bytes()));
    ReportInput(slot, true);
    return;
  }
  if (result.ok()) {
    connection.OnPeerFinished();
  } else if (result.error() != EAGAIN && result.error() != EINTR && !result.cancelled()) {
    OnPeerLost(slot);
  }
}

void Processor::OnHangup(Slot& slot, const Completion& completion) {
  // The kernel also tells of a peer that only finished sending (POLLRDHUP), again
  // and again: once is enough.
  const bool useful = !completion.result.ok();
  slot.connection.OnHangupWatchRetired(useful);
  if (slot.connection.shutdown_done()) return;
  if (completion.result.ok() && (completion.result.bytes() & (POLLERR | POLLHUP)) != 0) {
    OnPeerLost(slot);
  }
}

void Processor::OnPeerLost(Slot& slot) {
  slot.connection.OnPeerLost();
  // Only whole frames that came keep the socket until they are started.
  if (!slot.receive.MayHoldFrame(*slot.decoder)) slot.connection.OnInputExhausted();
}

void Processor::RearmStarved() {
  uint32_t available = receive_buffers_.free_count();
  while (available > 0) {
    Slot* slot = starved_.PopFront();
    if (slot == nullptr) break;
    --available;
    slot->connection.SetStarved(false);
    Settle(*slot);
  }
  if (starved_.empty()) receive_buffers_.SetStarved(false);
}

// --- frames and requests -----------------------------------------------------------

void Processor::DispatchFrames(Slot& slot) {
  SlotMemory memory(*this, slot);
  const int32_t room = slot.connection.run_room();
  ConnectionRequest* first = nullptr;
  ConnectionRequest* last = nullptr;
  int32_t count = 0;
  while (count < room) {
    NetworkReceive::Frame frame;
    const char* reason = nullptr;
    const NetworkReceive::Status status =
        slot.receive.Next(*slot.decoder, memory, &frame, &reason);
    if (status == NetworkReceive::Status::kFrame) {
      ConnectionRequest* request = AcquireRequest();
      request->Fill(&channel_, this, &slot.session, slot.index, slot.generation,
                    std::move(frame.payload), charges_memory_ ? frame.charged_bytes : 0, now_ns_);
      slot.output.Push(request);
      if (last != nullptr) {
        last->next_in_run = request;
      } else {
        first = request;
      }
      last = request;
      ++count;
      metrics_.frames_received.Increment();
      continue;
    }
    if (status == NetworkReceive::Status::kNoMemory) {
      WaitForMemory(slot, memory.refused_bytes);
    } else if (status == NetworkReceive::Status::kInvalid) {
      metrics_.frames_invalid.Increment();
      LogClose(slot, reason);
      slot.connection.CloseAfterFlush();
      slot.receive.Clear(memory);
    }
    break;
  }
  SpendGranted(slot);
  ReportInput(slot, false);
  if (!slot.receive.has_unseen()) slot.connection.OnInputExhausted();
  if (count > 0) {
    first->run.first = first;
    first->run.sink = this;
    first->run.count = static_cast<uint32_t>(count);
    first->run.wants_started_notice = limits_.max_in_flight > 1;
    slot.connection.OnRunDispatched(count, first->run.wants_started_notice);
    SendRun(slot, first);
  }
}

void Processor::SendRun(Slot& slot, ConnectionRequest* first) {
  if (options_.connection.dispatch == Dispatch::kInline) {
    bool all_inline = true;
    for (ConnectionRequest* request = first; request != nullptr; request = request->next_in_run) {
      all_inline = all_inline && handler_.RunsInline(*request);
    }
    if (all_inline) return StartInline(slot, first);
  }
  // Behind those that wait already: first come, first served.
  first->run_notice_pending = first->run.wants_started_notice;
  if (parked_runs_.empty() && channel_.TrySend(&first->run)) return;
  metrics_.requests_parked.Increment();
  slot.parked_run = first;
  slot.connection.SetParked(true);
  parked_runs_.PushBack(&slot);
  channel_.WaitForRoom(this);
  // Room that came before the FIFO knew of this processor was told to nobody.
  OnRoom();
}

void Processor::OnRoom() {
  while (Slot* slot = parked_runs_.front()) {
    if (!channel_.TrySend(&slot->parked_run->run)) {
      channel_.WaitForRoom(this);
      if (!channel_.TrySend(&slot->parked_run->run)) return;
    }
    static_cast<IntrusiveListNode<ParkedTag>*>(slot)->Unlink();
    slot->parked_run = nullptr;
    slot->connection.SetParked(false);
  }
  channel_.PassRoomOn();
}

void Processor::StartInline(Slot& slot, ConnectionRequest* first) {
  ConnectionRequest* request = first;
  while (request != nullptr) {
    ConnectionRequest* const next = request->next_in_run;
    request->times().dequeued_ns = now_ns_;
    handler_.Start(request);
    if (request->MarkStarted(channel_.clock().NowNs())) OnResponse(request);
    request = next;
  }
  slot.connection.OnRunStarted();
}

void Processor::OnResponse(ConnectionRequest* request) {
  request->times().response_dequeued_ns = now_ns_;
  request->ReleaseFrame();
  Slot& slot = table_.At(request->slot());
  DCHECK(slot.open);
  DCHECK_EQ(slot.generation, request->generation());
  if (!slot.transport->passes_through()) slot.transport->Wrap(&request->response());
  slot.last_progress_ns = now_ns_;
  const int32_t ready = slot.output.MarkReady(request);
  if (ready == 0) return;
  slot.connection.OnResponsesReady(ready);
}

void Processor::OnRunStarted(RequestRun* run) {
  ConnectionRequest* request = run->first;
  request->run_notice_pending = false;
  Slot& slot = table_.At(request->slot());
  slot.connection.OnRunStarted();
  if (request->finished) ReleaseRequest(request);
  Settle(slot);
}

void Processor::OnFrontSent(Slot& slot) {
  owner_.Assert();
  FinishFront(slot, true);
}

void Processor::OnCloseResponse(Slot& slot) {
  owner_.Assert();
  const char* reason = slot.output.front()->close_reason();
  if (reason != nullptr) LogClose(slot, reason);
  FinishFront(slot, true);
  slot.connection.Abort();
}

void Processor::OnSendFailed(Slot& slot, const char* reason) {
  owner_.Assert();
  if (reason != nullptr) LogClose(slot, reason);
  slot.connection.Abort();
}

void Processor::OnQuantumUsed(Slot& slot) {
  owner_.Assert();
  turns_.PushBack(&slot);
}

void Processor::FinishFront(Slot& slot, bool sent) {
  ConnectionRequest* request = slot.output.Pop();
  request->times().sent_ns = sent ? now_ns_ : request->times().response_dequeued_ns;
  request_metrics_.Record(request->api, request->times(), request->frame_bytes());
  slot.connection.OnResponseSent();
  slot.last_progress_ns = now_ns_;
  ReleaseRequest(request);
}

void Processor::DropResponses(Slot& slot) {
  while (slot.output.front() != nullptr) FinishFront(slot, false);
}

ConnectionRequest* Processor::AcquireRequest() {
  if (free_requests_.empty()) {
    requests_.push_back(std::make_unique<ConnectionRequest>());
    free_requests_.reserve(requests_.capacity());
    return requests_.back().get();
  }
  ConnectionRequest* request = free_requests_.back();
  free_requests_.pop_back();
  return request;
}

void Processor::ReleaseRequest(ConnectionRequest* request) {
  request->ReleaseResponse();
  // The run's node is still out: the notice brings the object back.
  request->finished = true;
  if (!request->run_notice_pending) free_requests_.push_back(request);
}

// --- memory ------------------------------------------------------------------------

bool Processor::SlotMemory::TryCharge(int64_t bytes) {
  if (!processor_.charges_memory_) return true;
  if (slot_.granted_bytes >= bytes) {
    slot_.granted_bytes -= bytes;
    return true;
  }
  if (processor_.channel_.memory().TryReserve(bytes)) return true;
  refused_bytes = bytes;
  return false;
}

void Processor::SlotMemory::Uncharge(int64_t bytes) {
  if (processor_.charges_memory_) processor_.channel_.memory().Release(bytes);
}

Buffer Processor::SlotMemory::Allocate(uint32_t size_bytes) {
  Buffer buffer = processor_.slab_.Allocate(size_bytes);
  return buffer.block() != nullptr ? buffer : Buffer::Allocate(size_bytes);
}

Buffer Processor::SlotMemory::TryAllocateLarge(uint32_t size_bytes) {
  return processor_.large_ranges_.Acquire(size_bytes);
}

bool Processor::SlotMemory::lent_too_many() const {
  return processor_.receive_buffers_.lent_too_many();
}

void Processor::WaitForMemory(Slot& slot, int64_t bytes) {
  metrics_.memory_waits.Increment();
  slot.connection.SetWaitingForMemory(true);
  if (bytes == 0) {
    // All of the large ranges' address space is lent.
    if (range_waiters_.empty()) range_retry_ns_ = now_ns_ + kLargeRangeRetryNs;
    range_waiters_.PushBack(&slot);
    return;
  }
  slot.memory_wait.bytes = bytes;
  slot.memory_wait.on_granted = [](MemoryWaiter* waiter) {
    auto* wait = static_cast<Slot::MemoryWait*>(waiter);
    wait->processor->granted_.Push(wait);
    wait->processor->WakeIfParked();
  };
  slot.memory_wait_pending = true;
  slot.connection.OnOperationSubmitted();  // the slot stays until the answer
  if (channel_.memory().Wait(&slot.memory_wait)) return;
  slot.memory_wait_pending = false;
  slot.connection.OnOperationRetired();
  LogClose(slot, "a request larger than queued_max_request_bytes");
  slot.connection.CloseAfterFlush();
}

void Processor::OnMemoryGranted(Slot& slot) {
  slot.memory_wait_pending = false;
  slot.granted_bytes = slot.memory_wait.bytes;
  slot.connection.OnOperationRetired();
  slot.connection.SetWaitingForMemory(false);
  if (slot.connection.closing()) SpendGranted(slot);
  Settle(slot);
}

// What was granted and not used goes back.
void Processor::SpendGranted(Slot& slot) {
  if (slot.granted_bytes == 0) return;
  channel_.memory().Release(std::exchange(slot.granted_bytes, 0));
}

void Processor::RetryLargeRanges() {
  IntrusiveList<Slot, RangeTag> waiters;
  waiters.TakeAll(&range_waiters_);
  while (Slot* slot = waiters.PopFront()) {
    slot->connection.SetWaitingForMemory(false);
    Settle(*slot);
  }
  range_retry_ns_ = now_ns_ + kLargeRangeRetryNs;
}

// --- idle connections ----------------------------------------------------------------

void Processor::ExpireIdle() {
  if (idle_wheel_.size() == 0) return;
  TimerList expired;
  idle_wheel_.AdvanceTo(now_ns_, &expired);
  while (TimerEntry* entry = expired.PopFront()) OnIdleDeadline(*static_cast<Slot*>(entry));
}

void Processor::OnIdleDeadline(Slot& slot) {
  // The entry is not moved by traffic; it is put where the last progress says.
  const bool at_rest = slot.connection.idle() || slot.connection.send_busy();
  const int64_t deadline_ns = (at_rest ? slot.last_progress_ns : now_ns_) + IdleNs();
  if (deadline_ns > now_ns_) {
    slot.deadline_ns = deadline_ns;
    idle_wheel_.Add(&slot);
    return;
  }
  metrics_.connections_expired.Increment();
  slot.connection.Abort();
  Settle(slot);
}

// --- closing -----------------------------------------------------------------------

void Processor::Shutdown(Slot& slot) {
  Connection& connection = slot.connection;
  connection.OnShutdownDone();
  static_cast<IntrusiveListNode<StarvedTag>&>(slot).Unlink();
  static_cast<IntrusiveListNode<RangeTag>&>(slot).Unlink();
  connection.SetStarved(false);
  connection.SetWaitingForMemory(false);
  if (starved_.empty()) receive_buffers_.SetStarved(false);
  idle_wheel_.Cancel(&slot);
  ring_->Shutdown(slot.fd, /*write_side_only=*/false);

  switch (connection.receiving()) {
    case Connection::Receiving::kNone:
      break;
    case Connection::Receiving::kProvided:
      CancelOperation(slot, OpKind::kRecv, Operation::kReceive);
      break;
    case Connection::Receiving::kDirect:
      if (slot.direct_charged_bytes > 0) {
        CancelOperation(slot, OpKind::kRecv, Operation::kReceiveDirect);
      } else {
        CancelOperation(slot, OpKind::kPoll, Operation::kReadable);
      }
      break;
  }
  if (connection.hangup_watch()) CancelOperation(slot, OpKind::kPoll, Operation::kHangup);
  switch (slot.sending) {
    case Slot::SendOperation::kSend:
      CancelOperation(slot, OpKind::kSend, Operation::kSend);
      break;
    case Slot::SendOperation::kWritable:
      CancelOperation(slot, OpKind::kPoll, Operation::kWritable);
      break;
    case Slot::SendOperation::kTurn:
      static_cast<IntrusiveListNode<TurnTag>&>(slot).Unlink();
      slot.sending = Slot::SendOperation::kNone;
      connection.OnSendIdle();
      break;
    case Slot::SendOperation::kNone:
    case Slot::SendOperation::kSplice:    // on the disk, and soon over
    case Slot::SendOperation::kFileRead:
      break;
  }
  if (slot.memory_wait_pending && channel_.memory().CancelWait(&slot.memory_wait)) {
    slot.memory_wait_pending = false;
    connection.OnOperationRetired();
  }
  if (ConnectionRequest* request = std::exchange(slot.parked_run, nullptr)) {
    // Never handed over: as if answered by nothing.
    static_cast<IntrusiveListNode<ParkedTag>&>(slot).Unlink();
    connection.SetParked(false);
    request->run_notice_pending = false;
    while (request != nullptr) {
      ConnectionRequest* const next = request->next_in_run;
      OnResponse(request);
      request = next;
    }
    connection.OnRunStarted();
  }
}

void Processor::CloseSocket(Slot& slot) {
  sender_.Abandon(slot);
  SlotMemory memory(*this, slot);
  slot.receive.Clear(memory);
  SpendGranted(slot);
  ring_->Close(slot.fd);
  slot.fd = -1;
  slot.quota.Release();
  slot.connection.OnClosed();
  metrics_.connections_closed.Increment();
  metrics_.connections.Decrement();
  open_connections_.fetch_sub(1, std::memory_order_acq_rel);
}

void Processor::Free(Slot& slot) { table_.Release(&slot); }

void Processor::LogClose(const Slot& slot, const char* reason) {
  uint64_t suppressed = 0;
  if (!close_log_.TryTake(now_ns_, &suppressed)) return;
  LOG(WARNING) << "closing connection from " << slot.session.peer << " on "
               << slot.session.listener_name << ": " << reason
               << (suppressed > 0 ? " (" + std::to_string(suppressed) + " similar lines held back)"
                                  : std::string());
}

}  // namespace gyre
