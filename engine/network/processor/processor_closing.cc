// How a processor's connection ends: shut down, everything of it called off, closed
// once nothing of it is in the kernel, and freed.
#include <string>
#include <utility>

#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

using uring::OpKind;

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
