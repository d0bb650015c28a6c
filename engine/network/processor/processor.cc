#include "engine/network/processor/processor.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace gyre {

using uring::Completion;
using uring::OpKind;

Processor::Processor(ProcessorSeat& seat, const ProcessorOptions& options, const Shared& shared,
                     std::unique_ptr<uring::Ring> ring)
    : seat_(seat),
      options_(options),
      charges_memory_(shared.channel.memory().capacity_bytes() != MemoryPool::kUnbounded),
      channel_(shared.channel),
      handler_(shared.handler),
      slab_(shared.slab),
      large_ranges_(shared.large_ranges),
      metrics_(shared.metrics),
      request_metrics_(shared.request_metrics),
      ring_(std::move(ring)),
      limits_{options_.connection.receive_ahead_bytes, options_.connection.receive_ahead_bytes,
              options_.connection.max_in_flight_requests_per_connection,
              options_.connection.max_in_flight_bytes_per_connection, ring_->recv_is_multishot()},
      receive_buffers_(seat.receive_buffers()),
      intakes_(*ring_, metrics_, seat),
      table_(options_.max_connections, limits_, seat.first_generation()),
      response_budget_(options_.connection.response_budget_bytes),
      sender_(*this, *ring_, slab_, options_, metrics_),
      deadlines_(channel_.clock().NowNs()),
      completions_(kMaxCompletions) {
  deadlines_.MakeLevels(kTimedAheadNs);
  seat_.Take(*ring_, metrics_);
  thread_.responses_queued = seat_.responses_queued();
  thread_.kind = NetworkThread::Kind::kProcessor;
  thread_.index = seat_.index();
  thread_.started_ns = channel_.clock().NowNs();
  thread_.listener = shared.listener_name;
  thread_.ring = ring_.get();
  thread_.open_connections = &seat_.open_connection_count();
  metrics_.threads.Add(&thread_);
}

Processor::~Processor() {
  metrics_.threads.Remove(&thread_);
  // Never started, or stopped with connections left: what the handlers still hold
  // is dropped with the table.
  channel_.ForgetWaiter(&seat_);
  NewConnection connection;
  while (seat_.TryPopConnection(&connection)) Drop(std::move(connection));
  seat_.Leave(table_.last_generation());
}

int64_t Processor::requests_awaiting_answer() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  int64_t count = 0;
  requests_.ForEach(
      [&count](const ConnectionRequest& request) { count += request.awaits_answer() ? 1 : 0; });
  return count;
}

// --- any thread ----------------------------------------------------------------

void Processor::BeginDrain() {
  drain_requested_.store(true, std::memory_order_seq_cst);
  seat_.WakeIfParked();
}

void Processor::CloseAll() {
  close_requested_.store(true, std::memory_order_seq_cst);
  seat_.WakeIfParked();
}

void Processor::Retire(ProcessorSet* others) {
  retire_to_.store(others, std::memory_order_seq_cst);
  seat_.WakeIfParked();
}

void Processor::Rebalance(ProcessorSet* set) {
  rebalance_to_.store(set, std::memory_order_seq_cst);
  seat_.WakeIfParked();
}

// --- the owner's thread ----------------------------------------------------------

void Processor::OnThreadStart() {
  owner_.Bind();
  owner_.Assert();
  start_status_ = ring_->Attach();
  if (start_status_.ok()) start_status_ = receive_buffers_.Provide(*ring_);
  if (start_status_.ok()) {
    registered_buffers_ = ring_->RegisterBuffers(slab_.RegisteredBuffers());
    if (registered_buffers_.ok()) sender_.OnSlabRegistered();
  }
  started_.store(true, std::memory_order_release);
  started_.notify_all();
}

void Processor::OnThreadStop() {
  owner_.Assert();
  channel_.ForgetWaiter(&seat_);
  // Room that was told of and not used is another's.
  const uint32_t lanes = seat_.TakeRoom();
  for (int lane = 0; lane < kMaxLanes; ++lane) {
    if ((lanes >> lane & 1) != 0) channel_.PassRoomOn(lane);
  }
  intakes_.Abandon();
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    // Past the deadline of Stop: the kernel drops what is in flight with the ring.
    static_cast<IntrusiveListNode<StarvedTag>&>(slot).Unlink();
    static_cast<IntrusiveListNode<RangeTag>&>(slot).Unlink();
    if (slot.parked_run != nullptr) Unpark(slot);
    static_cast<IntrusiveListNode<TurnTag>&>(slot).Unlink();
    static_cast<IntrusiveListNode<YieldTag>&>(slot).Unlink();
    deadlines_.Cancel(&slot);
    if (slot.memory_wait != nullptr) {
      static_cast<IntrusiveListNode<MemoryTag>*>(slot.memory_wait)->Unlink();
      channel_.memory().CancelWait(slot.memory_wait);
    }
    if (slot.fd >= 0 && !slot.connection.closed()) {
      if (slot.connection.zero_copy_pending() > 0) ring_->SetResetOnClose(slot.fd);
      ring_->Close(slot.fd);
    }
    slot.quota.Release();
  });
  // Grants that came too late to be called off: their waits go with this processor.
  while (seat_.PopGranted() != nullptr) {
  }
  DropLists();
  sender_.Stop();
  thread_.turn_began_ns.store(NetworkThread::kNoTurn, std::memory_order_relaxed);
  owner_.Unbind();
}

bool Processor::RunOnce(int64_t now_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return false;
  now_ns_ = now_ns;
  ++turn_;
  thread_.turn_began_ns.store(now_ns, std::memory_order_relaxed);
  thread_.waits.OnWoken(now_ns);
  // With turns queued, or more connections at the door than are let in at once, nobody
  // waits in the ring, so it is looked at here.
  if (reaped_ == 0 &&
      (options_.reap_every_turn || !turns_.empty() || !yielded_.empty() || more_new_connections_)) {
    reaped_ = ring_->SubmitAndReap(absl::MakeSpan(completions_), 0);
  }
  const size_t reaped = std::exchange(reaped_, 0);
  for (size_t i = 0; i < reaped; ++i) OnCompletion(completions_[i]);

  bool worked = reaped > 0;
  if (intakes_.RunOnce(now_ns_)) worked = true;
  if (DrainMailboxes()) worked = true;
  if (HandleControl()) worked = true;
  if (receive_buffers_.ReturnReleased() > 0 || !starved_.empty()) RearmStarved();
  ExpireDeadlines();
  if (!range_waiters_.empty() && now_ns_ >= range_retry_ns_) RetryLargeRanges();
  if (now_ns_ >= partial_check_ns_ && WatchesPartials()) BreakPartials();
  if (now_ns_ >= heap_trim_due_ns_) {
    heap_trim_due_ns_ = kNever;
    channel_.heap_trim().Request();
  }
  UpdateResponseBudget();
  if (HasResponseWaiters()) ServeResponseWaiters();
  if (!yielded_.empty()) {
    worked = true;
    ServeYielded();
  }
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

  EnforceResponseBudget();

  if (retiring_ && open_connections() == 0 && table_.size() == 0 &&
      receive_buffers_.lent_count() == 0 && !seat_.HasMail() && seat_.listening_sockets() == 0) {
    retired_.store(true, std::memory_order_release);
  }

  if (now_ns_ >= drain_grace_ends_ns_) EndDrainGrace();
  if (now_ns_ >= stalled_check_ns_) EndStalledFrames();

  // Nothing is handed over behind this.
  TellHandlers();

  next_deadline_ns_ = std::min(deadlines_.NextExpiryNs(), intakes_.NextDeadlineNs());
  next_deadline_ns_ = std::min({next_deadline_ns_, drain_grace_ends_ns_, stalled_check_ns_});
  next_deadline_ns_ = std::min(next_deadline_ns_, heap_trim_due_ns_);
  if (!range_waiters_.empty()) next_deadline_ns_ = std::min(next_deadline_ns_, range_retry_ns_);
  if (HasResponseWaiters()) next_deadline_ns_ = std::min(next_deadline_ns_, stall_check_ns_);
  // Bytes that must wait for their turn wait in the sockets while memory is short.
  limits_.receive_ahead_bytes =
      response_budget_.HasRoomAhead() ? options_.connection.receive_ahead_bytes : 0;
  if (WatchesPartials()) next_deadline_ns_ = std::min(next_deadline_ns_, partial_check_ns_);
  if (options_.reap_every_turn) return worked;
  return !turns_.empty() || !yielded_.empty() || !MailboxesEmpty() || CanServeResponseWaiters();
}

int64_t Processor::NextDeadlineNs() const {
  owner_.Assert();
  return next_deadline_ns_;
}

void Processor::Wait(int64_t now_ns, int64_t deadline_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return;
  thread_.turn_began_ns.store(NetworkThread::kNoTurn, std::memory_order_relaxed);
  int64_t wait_ns = -1;
  if (deadline_ns != ThreadBody::kNever) {
    // The ring takes microseconds at best; waking early would only loop.
    wait_ns = std::max<int64_t>(0, deadline_ns - now_ns);
  }
  seat_.Park();
  if (!MailboxesEmpty()) wait_ns = 0;
  if (wait_ns != 0) thread_.waits.Begin(now_ns);
  reaped_ = ring_->SubmitAndReap(absl::MakeSpan(completions_), wait_ns);
  if (wait_ns != 0) thread_.waits.End();
  seat_.Unpark();
}

bool Processor::MailboxesEmpty() const {
  return control_.empty() && lists_.empty() && !seat_.HasMail() && intakes_.AtRest() &&
         !HasOrders() && ((starved_.empty() && !retiring_) || !receive_buffers_.has_released());
}

bool Processor::DrainMailboxes() {
  bool any = false;
  int64_t taken_ns = 0;  // looked at where there is a response
  while (ResponseNode* response = seat_.PopResponse()) {
    if (taken_ns == 0) taken_ns = channel_.clock().NowNs();
    any = true;
    if (response->kind >= ResponseKind::kStartThrottling) {
      OnThrottleSignal(static_cast<ThrottleSignal*>(response));
      continue;
    }
    auto* request = static_cast<ConnectionRequest*>(static_cast<Request*>(response));
    Slot& slot = table_.At(request->slot());
    OnResponse(request, taken_ns);
    Settle(slot);
  }
  while (RequestRun* run = seat_.PopRunStarted()) {
    ConnectionRequest* const first = run->first;
    Slot& slot = table_.At(first->slot());
    OnRunStarted(first);
    Settle(slot);
    any = true;
  }
  while (MpscNode* node = seat_.PopGranted()) {
    OnMemoryGranted(*static_cast<MemoryWait*>(node)->slot);
    any = true;
  }
  if (const uint32_t lanes = seat_.TakeRoom()) {
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      if ((lanes >> lane & 1) != 0) OnRoom(lane);
    }
    any = true;
  }
  NewConnection connection;
  int new_count = 0;
  while (new_count < kMaxNewPerTurn && seat_.TryPopConnection(&connection)) {
    OnNewConnection(std::move(connection));
    ++new_count;
  }
  more_new_connections_ = new_count == kMaxNewPerTurn;
  any |= new_count > 0;
  if (seat_.TakeShed()) {
    Shed();
    any = true;
  }
  if (seat_.TakeStallCheck()) {
    if (now_ns_ >= stall_check_ns_) CloseStalledReaders();
    any = true;
  }
  return TakeOrders() || any;
}

bool Processor::HasOrders() const {
  return drain_requested_.load(std::memory_order_seq_cst) != draining_ ||
         close_requested_.load(std::memory_order_seq_cst) != closing_all_ ||
         (retire_to_.load(std::memory_order_seq_cst) != nullptr) != retiring_ ||
         rebalance_to_.load(std::memory_order_seq_cst) != nullptr;
}

bool Processor::TakeOrders() {
  if (!HasOrders()) return false;
  if (!draining_ && drain_requested_.load(std::memory_order_seq_cst)) BeginDrainNow();
  if (!closing_all_ && close_requested_.load(std::memory_order_seq_cst)) {
    closing_all_ = true;
    table_.ForEach([this](Slot& slot) {
      owner_.Assert();
      slot.connection.Abort();
      if (slot.connection.shutdown_done() && !slot.connection.closed()) OnCloseDeadline(slot);
      Settle(slot);
    });
  }
  if (ProcessorSet* set = rebalance_to_.exchange(nullptr, std::memory_order_seq_cst)) {
    GiveSurplus(set);
  }
  if (!retiring_ && retire_to_.load(std::memory_order_seq_cst) != nullptr) BeginRetirement();
  return true;
}

// --- connections -----------------------------------------------------------------

void Processor::OnNewConnection(NewConnection connection) {
  if (connection.migration != nullptr) return OnMigrated(std::move(connection));
  if (retiring_ && !draining_ && !closing_all_) {
    // It was on its way when the others took over.
    others_->Place(std::move(connection));
    seat_.OnConnectionLeft();
    return;
  }
  const bool too_late = closing_all_ || (draining_ && drain_grace_ends_ns_ == kNever);
  Slot* slot = too_late ? nullptr : table_.Acquire();
  if (slot == nullptr) return Drop(std::move(connection));
  slot->fd = connection.fd;
  slot->quota = std::move(connection.quota);
  slot->transport = &plaintext_;
  slot->last_progress_ns = now_ns_;
  slot->session.listener = connection.listener;
  slot->session.peer = {KeyOf(connection.peer), connection.peer.port()};
  slot->traffic = ConnectionTraffic{.opened_ns = now_ns_};
  ++thread_.connections_opened;
  metrics_.connections_accepted.Increment();
  metrics_.connections.Increment();
  ArmDeadline(*slot, now_ns_ + IdleNs());
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
        CountSent(slot);
        break;
      case ConnectionStep::kDropResponses:
        DropResponses(slot);
        break;
      case ConnectionStep::kDetach:
        Detach(slot);
        break;
      case ConnectionStep::kMigrate:
        Migrate(slot);
        return;
      case ConnectionStep::kLinger:
        Linger(slot);
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
  if (token.kind == OpKind::kAccept) return intakes_.OnCompletion(completion, now_ns_);
  if (token.kind == OpKind::kSendZeroCopy) {
    // It names a send, not a slot.
    if (Slot* const slot = sender_.OnZeroCopy(completion)) {
      slot->last_progress_ns = now_ns_;
      CountSent(*slot);
      Settle(*slot);
    }
    return;
  }
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
          CountSent(slot);
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
  if (!slot.connection.mid_frame()) {
    slot.frame_started_ns = now_ns_;
    slot.receive_pace.Begin(now_ns_);
  }
  slot.connection.OnInput(slot.receive.unparsed_bytes(), slot.receive.wants_direct(),
                          slot.receive.in_large_frame(), slot.receive.mid_frame(), news);
  CountAhead(slot);
}

}  // namespace gyre
