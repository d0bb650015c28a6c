// A processor's receiving side: arming, and what comes of it.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "engine/network/processor/processor.h"

namespace gyre {

using uring::Completion;
using uring::OpKind;

// --- receiving -------------------------------------------------------------------

void Processor::Receive(Slot& slot) {
  slot.connection.OnReceiveArmed(Connection::Receiving::kProvided);
  slot.connection.OnOperationSubmitted();
  const uring::Token token = slot.TokenFor(OpKind::kRecv, Operation::kReceive);
  // A multishot takes all that the socket has before anybody can stop it.
  const bool memory_is_short = limits_.receive_ahead_bytes == 0 || !memory_waiters_.empty();
  // Nor does one that delivers bytes tell of a reset for certain, and the watch is used up.
  if (memory_is_short || slot.connection.hangup_told()) {
    return ring_->RecvProvidedOnce(token, slot.fd);
  }
  ring_->RecvProvided(token, slot.fd);
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
    slot.receive_pace.Move(now_ns_, result.bytes());
    metrics_.bytes_received.Add(result.bytes());
    slot.traffic.received_bytes += result.bytes();
    if (connection.lingering()) return;
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
    MaybeLeavePartialLine(slot);
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
      NoteStarved();
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
  if (!completion.result.ok() || slot.connection.detached() || slot.connection.lingering()) {
    slot.connection.OnReceiveRetired();
    return;
  }
  StartDirect(slot);
}

void Processor::StartDirect(Slot& slot) {
  if (slot.connection.waiting_for_memory()) {
    // For another kind: it goes on here when that is over.
    slot.connection.OnReceiveRetired();
    slot.socket_readable = true;
    return;
  }
  SlotMemory memory(*this, slot);
  const int64_t charged_bytes = slot.receive.TryChargeDirect(kDirectMaxBytes, memory);
  if (charged_bytes == 0) {
    slot.connection.OnReceiveRetired();
    slot.socket_readable = true;
    WaitForMemory(slot, memory);
    return;
  }
  SpendGranted(slot);
  slot.receiving_direct = true;
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
  slot.receiving_direct = false;
  slot.receive.OnDirectDone(result.bytes(), memory);
  if (connection.shutdown_done()) return;
  if (result.bytes() > 0) {
    slot.last_progress_ns = now_ns_;
    slot.receive_pace.Move(now_ns_, result.bytes());
    metrics_.bytes_received.Add(result.bytes());
    slot.traffic.received_bytes += result.bytes();
    slot.socket_readable = completion.socket_nonempty;
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
  // Lingering, both sides may have ended with bytes left to be taken: receiving tells.
  if (slot.connection.shutdown_done() || slot.connection.lingering()) return;
  if (!completion.result.ok() || (completion.result.bytes() & (POLLERR | POLLHUP)) == 0) return;
  const Connection& connection = slot.connection;
  if (connection.receiving() == Connection::Receiving::kProvided && connection.TakesBytes()) {
    // The one that is armed may have missed it; those after it tell, behind what came before.
    return CancelReceive(slot);
  }
  OnPeerLost(slot);
}

void Processor::OnPeerLost(Slot& slot) {
  if (!slot.decoder().has_one_way_requests()) return slot.connection.Abort();
  slot.connection.OnPeerLost();
  // Only whole frames that came keep the socket until they are started.
  if (slot.next_request == nullptr && !slot.receive.MayHoldFrame(slot.decoder())) {
    slot.connection.OnInputExhausted();
  }
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
  NoteStarved();
}

// Whoever releases a buffer wakes this processor while it waits for one.
void Processor::NoteStarved() { receive_buffers_.SetStarved(retiring_ || !starved_.empty()); }

}  // namespace gyre
