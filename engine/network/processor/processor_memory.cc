// A processor's requests in the memory budget: what is charged in a connection's name,
// who waits for it, and who is closed when partial requests hold what others wait for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

bool Processor::SlotMemory::TryCharge(int64_t bytes, MemoryUse use) {
  if (!processor_.charges_memory_) return true;
  MemoryPool& pool = processor_.channel_.memory();
  if (slot_.granted_bytes > 0 && slot_.granted_use != use) {
    // The rest of it came while it waited; or it is the next frame that asks.
    if (use == MemoryUse::kWhole) {
      pool.MakeWhole(slot_.granted_bytes);
      slot_.granted_use = use;
    } else {
      pool.Release(std::exchange(slot_.granted_bytes, 0), slot_.granted_use);
    }
  }
  const int64_t granted_bytes = std::min(slot_.granted_bytes, bytes);
  if (bytes == granted_bytes || pool.TryReserve(bytes - granted_bytes, use)) {
    slot_.granted_bytes -= granted_bytes;
    return true;
  }
  refused_bytes = bytes;
  refused_use = use;
  return false;
}

void Processor::SlotMemory::Uncharge(int64_t bytes, MemoryUse use) {
  if (processor_.charges_memory_) processor_.channel_.memory().Release(bytes, use);
}

void Processor::SlotMemory::MakeWhole(int64_t bytes) {
  if (processor_.charges_memory_) processor_.channel_.memory().MakeWhole(bytes);
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

void Processor::WaitForMemory(Slot& slot, const SlotMemory& memory) {
  metrics_.memory_waits.Increment();
  OnShortMemory();
  const bool completes_frame =
      memory.refused_use == MemoryUse::kPartial && !slot.receive.in_large_frame() &&
      slot.receive.missing_bytes() + slot.receive.unparsed_bytes() <= limits_.complete_ahead_bytes;
  slot.connection.SetWaitingForMemory(true, completes_frame);
  if (memory.refused_bytes == 0) {
    // All of the large ranges' address space is lent.
    if (range_waiters_.empty()) range_retry_ns_ = now_ns_ + kLargeRangeRetryNs;
    range_waiters_.PushBack(&slot);
    return;
  }
  // It waits for all that it wants now.
  SpendGranted(slot);
  DCHECK(slot.memory_wait == nullptr);
  MemoryWait* const wait = slot.memory_wait = memory_waits_.Acquire();
  wait->seat = &seat_;
  wait->slot = &slot;
  wait->bytes = memory.refused_bytes;
  wait->use = memory.refused_use;
  wait->on_granted = [](MemoryWaiter* waiter) {
    auto* granted = static_cast<MemoryWait*>(waiter);
    granted->seat->EnqueueGranted(granted);
  };
  wait->since_ns = now_ns_;
  slot.connection.OnOperationSubmitted();  // the slot stays until the answer
  if (channel_.memory().Wait(wait)) {
    memory_waiters_.PushBack(wait);
    return;
  }
  EndMemoryWait(slot);
  LogClose(slot, "a request larger than queued_max_request_bytes");
  slot.connection.CloseAfterFlush();
}

void Processor::EndMemoryWait(Slot& slot) {
  MemoryWait* const wait = std::exchange(slot.memory_wait, nullptr);
  static_cast<IntrusiveListNode<MemoryTag>*>(wait)->Unlink();
  memory_waits_.Release(wait);
  slot.connection.OnOperationRetired();
}

void Processor::OnMemoryGranted(Slot& slot) {
  slot.granted_bytes = slot.memory_wait->bytes;
  slot.granted_use = slot.memory_wait->use;
  const int64_t waited_ns = now_ns_ - slot.memory_wait->since_ns;
  slot.receive_pace.Forgive(now_ns_, waited_ns);
  slot.frame_started_ns = std::min(now_ns_, slot.frame_started_ns + waited_ns);
  EndMemoryWait(slot);
  Connection& connection = slot.connection;
  connection.SetWaitingForMemory(false);
  // One that takes no request for now leaves it to others, and asks again.
  if (connection.closing() || connection.migrating() || connection.throttled()) SpendGranted(slot);
  Settle(slot);
}

// What it waited with came whole meanwhile: it need not stand in line with those that
// did not.
void Processor::MaybeLeavePartialLine(Slot& slot) {
  if (slot.memory_wait == nullptr || slot.memory_wait->use != MemoryUse::kPartial) return;
  if (!slot.receive.MayHoldFrame(slot.decoder())) return;
  if (!channel_.memory().CancelWait(slot.memory_wait)) return;
  EndMemoryWait(slot);
  slot.connection.SetWaitingForMemory(false);
}

// What was granted and not used goes back.
void Processor::SpendGranted(Slot& slot) {
  if (slot.granted_bytes == 0) return;
  channel_.memory().Release(std::exchange(slot.granted_bytes, 0), slot.granted_use);
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

// Others' partial frames hold what those wait for who wait here, or ours what others do.
// With less than is kept for whole ones anyway, nobody waits for them.
bool Processor::WatchesPartials() const {
  if (!charges_memory_) return false;
  const MemoryPool& pool = channel_.memory();
  return !memory_waiters_.empty() ||
         pool.partial_bytes() > pool.capacity_bytes() - pool.partial_capacity_bytes();
}

void Processor::BreakPartials() {
  partial_check_ns_ = now_ns_ + kPartialCheckNs;
  if (!channel_.memory().WaitsForPartials()) return;
  partial_holders_.clear();
  int64_t held_bytes = 0;
  bool moving = false;
  table_.ForEach([&](Slot& slot) {
    owner_.Assert();
    if (slot.connection.shutdown_done() || slot.receive.charged_bytes() == 0) return;
    PartialHolder holder;
    holder.slot = &slot;
    holder.held_bytes = slot.receive.charged_bytes() + slot.granted_bytes;
    holder.missing_bytes = slot.receive.missing_bytes();
    held_bytes += holder.held_bytes;
    // What it waits for memory is not its fault; that it came late to wait for it is.
    const MemoryWait* const wait = slot.memory_wait;
    holder.behind_ns = slot.receive_pace.BehindNs(wait != nullptr ? wait->since_ns : now_ns_);
    // One that is nearly there frees what it holds soonest if it is let: it may be we who
    // are late.
    const bool nearly = holder.missing_bytes <= limits_.complete_ahead_bytes;
    if (holder.behind_ns < (nearly ? kMovingPatience : 1) * kPartialStallNs) {
      if (wait == nullptr) {
        moving = true;
        return;
      }
      holder.waits = true;
      holder.behind_ns = now_ns_ - wait->since_ns;
    }
    partial_holders_.push_back(holder);
  });
  // While another comes in those that wait may yet be served.
  const int64_t patience_ns = moving ? kMovingPatience * kPartialStallNs : kPartialStallNs;
  std::erase_if(partial_holders_, [patience_ns](const PartialHolder& holder) {
    return holder.waits && holder.behind_ns < patience_ns;
  });
  const size_t count = ChooseVictims(held_bytes / kBrokenPart, &partial_holders_);
  if (count == 0) return;
  OnShortMemory();
  int64_t freed_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    freed_bytes += partial_holders_[i].held_bytes;
    metrics_.partials_broken.Increment();
    partial_holders_[i].slot->connection.Abort();
    Settle(*partial_holders_[i].slot);
  }
  LogMemory(absl::StrCat("closed ", count, " connections whose unfinished requests held ",
                         freed_bytes,
                         " bytes that others wait for; raise queued_max_request_bytes or "
                         "memory_limit_bytes, or lower socket_request_max_bytes, if they were "
                         "honest"));
}

void Processor::LogMemory(const std::string& what) {
  uint64_t suppressed = 0;
  if (!memory_log_.TryTake(now_ns_, &suppressed)) return;
  LOG(WARNING) << what
               << (suppressed > 0 ? absl::StrCat(" (", suppressed, " similar lines held back)")
                                  : std::string());
}

}  // namespace gyre
