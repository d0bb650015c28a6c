// How a processor's connection ends: lingering until its last answers have arrived, shut
// down, everything of it called off, closed once nothing of it is in the kernel, and freed.
#include <string>
#include <utility>

#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

using uring::OpKind;

// The kernel resets a connection when bytes come for it that nobody will read, and with it
// goes what the peer has not taken yet. So the end of ours is told, and bytes are taken and
// dropped, until the peer has everything, ends as well, or hardly takes anything.
void Processor::Linger(Slot& slot) {
  const int64_t left_bytes = ring_->UnacknowledgedBytes(slot.fd);
  if (left_bytes == 0) return slot.connection.OnLingerOver();
  slot.connection.OnLingering();
  slot.connection.EndThrottling();
  ReportThrottled(slot);
  StopWaiting(slot);
  SpendGranted(slot);
  ring_->Shutdown(slot.fd, /*write_side_only=*/true);
  BeginTaking(slot, left_bytes);
  deadlines_.Cancel(&slot);
  slot.deadline_ns = now_ns_ + kLingerCheckNs;
  deadlines_.Add(&slot);
}

void Processor::OnLingerCheck(Slot& slot) {
  if (!TakesOn(slot)) return slot.connection.OnLingerOver();
  slot.deadline_ns = now_ns_ + kLingerCheckNs;
  deadlines_.Add(&slot);
}

void Processor::BeginTaking(Slot& slot, int64_t left_bytes) {
  slot.send_pace.Begin(now_ns_);
  slot.paced_sent_bytes = slot.traffic.sent_bytes - left_bytes;
}

bool Processor::TakesOn(Slot& slot) {
  const int64_t left_bytes = ring_->UnacknowledgedBytes(slot.fd);
  const int64_t taken_bytes = slot.traffic.sent_bytes - left_bytes;
  slot.send_pace.Move(now_ns_, taken_bytes - slot.paced_sent_bytes);
  slot.paced_sent_bytes = taken_bytes;
  return left_bytes > 0 && slot.send_pace.BehindNs(now_ns_) < kLingerPatienceNs;
}

void Processor::Shutdown(Slot& slot) {
  Connection& connection = slot.connection;
  connection.OnShutdownDone();
  connection.EndThrottling();
  ReportThrottled(slot);
  deadlines_.Cancel(&slot);
  ring_->Shutdown(slot.fd, /*write_side_only=*/false);
  CancelReceiving(slot);
  StopWaiting(slot);
  switch (slot.sending) {
    case Slot::SendOperation::kSend:
      CancelOperation(slot, OpKind::kSend, Operation::kSend);
      break;
    case Slot::SendOperation::kZeroCopy:
      sender_.CancelZeroCopy(slot);
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
    case Slot::SendOperation::kSplice:  // on the disk, and soon over
    case Slot::SendOperation::kFileRead:
      break;
  }
  if (connection.zero_copy_pending() > 0) {
    if (closing_all_) {
      OnCloseDeadline(slot);
    } else {
      BeginTaking(slot, ring_->UnacknowledgedBytes(slot.fd));
      slot.deadline_ns = now_ns_ + options_.zero_copy_close_timeout_ms * 1'000'000;
      deadlines_.Add(&slot);
    }
  }
  if (slot.parked_run != nullptr) {
    // Never handed over: as if answered by nothing.
    ConnectionRequest* request = Unpark(slot);
    request->run_notice_pending = false;
    while (request != nullptr) {
      ConnectionRequest* const next = request->next_in_run;
      OnResponse(request, now_ns_);
      request = next;
    }
    connection.OnRunStarted();
  }
}

// Takes back what receives or watches.
void Processor::CancelReceiving(Slot& slot) {
  Connection& connection = slot.connection;
  switch (connection.receiving()) {
    case Connection::Receiving::kNone:
      break;
    case Connection::Receiving::kProvided:
      CancelOperation(slot, OpKind::kRecv, Operation::kReceive);
      break;
    case Connection::Receiving::kDirect:
      if (slot.receiving_direct) {
        CancelOperation(slot, OpKind::kRecv, Operation::kReceiveDirect);
      } else {
        CancelOperation(slot, OpKind::kPoll, Operation::kReadable);
      }
      break;
  }
  if (connection.hangup_watch()) CancelOperation(slot, OpKind::kPoll, Operation::kHangup);
}

// Leaves the lines for buffers and memory. A grant that is on its way still comes.
void Processor::StopWaiting(Slot& slot) {
  Connection& connection = slot.connection;
  static_cast<IntrusiveListNode<StarvedTag>&>(slot).Unlink();
  static_cast<IntrusiveListNode<RangeTag>&>(slot).Unlink();
  static_cast<IntrusiveListNode<YieldTag>&>(slot).Unlink();
  connection.SetStarved(false);
  connection.SetWaitingForMemory(false);
  connection.SetYielded(false);
  NoteStarved();
  if (slot.memory_wait != nullptr && channel_.memory().CancelWait(slot.memory_wait)) {
    EndMemoryWait(slot);
  }
}

// The peer did not acknowledge what zero copy pins: a reset makes the kernel drop it.
void Processor::OnCloseDeadline(Slot& slot) {
  if (slot.connection.zero_copy_pending() == 0) return;
  metrics_.zero_copy_resets.Increment();
  ring_->SetResetOnClose(slot.fd);
  slot.connection.OnCloseDue();
}

void Processor::CloseSocket(Slot& slot) {
  deadlines_.Cancel(&slot);
  sender_.Abandon(slot);
  SlotMemory memory(*this, slot);
  slot.receive.Clear(memory);
  CountAhead(slot);
  DropNextRequest(slot);
  SpendGranted(slot);
  ring_->Close(slot.fd);
  slot.fd = -1;
  slot.quota.Release();
  slot.connection.OnClosed();
  slot.session.gone.store(true, std::memory_order_relaxed);
  ++thread_.connections_closed;
  metrics_.connections_closed.Increment();
  metrics_.connections.Decrement();
  seat_.OnConnectionLeft();
}

void Processor::Free(Slot& slot) { table_.Release(&slot); }

void Processor::LogClose(const Slot& slot, const char* reason) {
  uint64_t suppressed = 0;
  if (!close_log_.TryTake(now_ns_, &suppressed)) return;
  LOG(WARNING) << "closing connection from " << slot.session.peer.ToString() << " on "
               << slot.session.listener->bound.listener_name << ": " << reason
               << (suppressed > 0 ? " (" + std::to_string(suppressed) + " similar lines held back)"
                                  : std::string());
}

}  // namespace gyre
