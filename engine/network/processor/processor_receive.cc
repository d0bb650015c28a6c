// A processor's receiving side: arming, what comes of it, and the memory it takes.
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
    slot.traffic.received_bytes += result.bytes();
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
  if (!completion.result.ok() || slot.connection.detached()) {
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
    slot.traffic.received_bytes += result.bytes();
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
    wait->seat->EnqueueGranted(wait);
  };
  slot.memory_wait_pending = true;
  slot.connection.OnOperationSubmitted();  // the slot stays until the answer
  if (channel_.memory().Wait(&slot.memory_wait)) {
    if (memory_waiters_.empty()) memory_deadlock_ns_ = now_ns_ + kMemoryDeadlockNs;
    memory_waiters_.PushBack(&slot);
    return;
  }
  slot.memory_wait_pending = false;
  slot.connection.OnOperationRetired();
  LogClose(slot, "a request larger than queued_max_request_bytes");
  slot.connection.CloseAfterFlush();
}

void Processor::OnMemoryGranted(Slot& slot) {
  static_cast<IntrusiveListNode<MemoryTag>&>(slot).Unlink();
  memory_deadlock_ns_ = now_ns_ + kMemoryDeadlockNs;
  slot.memory_wait_pending = false;
  slot.granted_bytes = slot.memory_wait.bytes;
  slot.connection.OnOperationRetired();
  slot.connection.SetWaitingForMemory(false);
  if (slot.connection.closing()) SpendGranted(slot);
  Settle(slot);
}

// Closes the connection whose partial frame holds most, so that the others go on.
void Processor::BreakMemoryDeadlock() {
  memory_deadlock_ns_ = now_ns_ + kMemoryDeadlockNs;
  if (channel_.charged_requests() > 0) return;
  Slot* victim = nullptr;
  table_.ForEach([&victim](Slot& slot) {
    if (slot.connection.shutdown_done() || slot.receive.charged_bytes() == 0) return;
    if (victim == nullptr || slot.receive.charged_bytes() >= victim->receive.charged_bytes()) {
      victim = &slot;
    }
  });
  if (victim == nullptr) return;
  LogClose(*victim, "partial requests hold all of queued_max_request_bytes");
  victim->connection.Abort();
  Settle(*victim);
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

}  // namespace gyre
