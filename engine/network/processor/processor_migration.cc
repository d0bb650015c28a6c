// How a processor gives connections up and takes those that others gave up.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/network/processor/processor.h"

namespace gyre {

void Processor::BeginRetirement() {
  retiring_ = true;
  others_ = retire_to_.load(std::memory_order_seq_cst);
  intakes_.MoveTo(others_);
  NoteStarved();
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    slot.connection.BeginMigration();
    Settle(slot);
  });
}

void Processor::GiveSurplus(ProcessorSet* set) {
  if (retiring_ || draining_ || closing_all_) return;
  others_ = set;
  intakes_.MoveSurplusTo(set);
  int64_t surplus = set->Surplus(seat_);
  table_.ForEach([this, &surplus](Slot& slot) {
    owner_.Assert();
    // One with requests in flight would stop taking more until they are answered:
    // not worth it where it may as well stay.
    const Connection& connection = slot.connection;
    if (surplus == 0 || !connection.idle() || connection.closing()) return;
    --surplus;
    slot.connection.BeginMigration();
    Settle(slot);
  });
}

void Processor::Detach(Slot& slot) {
  slot.connection.OnDetached();
  CancelReceiving(slot);
  StopWaiting(slot);
}

void Processor::Migrate(Slot& slot) {
  metrics_.connections_migrated.Increment();
  deadlines_.Cancel(&slot);
  // It may have been starved by the last of its receives.
  StopWaiting(slot);
  SpendGranted(slot);
  sender_.Abandon(slot);

  NewConnection moved;
  moved.fd = std::exchange(slot.fd, -1);
  moved.quota = std::move(slot.quota);
  moved.migration = std::make_unique<ConnectionMigration>(slot.connection);
  ConnectionMigration& migration = *moved.migration;
  SlotMemory memory(*this, slot);
  slot.receive.MoveTo(&migration.receive, memory);
  CountAhead(slot);
  if (ConnectionRequest* next = std::exchange(slot.next_request, nullptr)) {
    // Its bytes may lie in a buffer of this ring.
    migration.has_next_frame = true;
    migration.next_frame = memory.Allocate(next->frame_bytes());
    std::memcpy(migration.next_frame.data(), next->frame().data(), next->frame().size());
    migration.next_frame_charged_bytes = next->TakeCharge();
    next->ReleaseFrame();
    ReleaseRequest(next);
  }
  migration.session = std::move(slot.session);
  migration.last_progress_ns = slot.last_progress_ns;
  migration.traffic = slot.traffic;
  migration.frame_late = slot.frame_late;
  migration.frame_started_ns = slot.frame_started_ns;
  migration.throttle_end_ns = slot.throttle_end_ns;
  // The gauge counts it at its new home.
  slot.connection.EndThrottling();
  ReportThrottled(slot);
  table_.Release(&slot);
  others_->Place(std::move(moved));
  seat_.OnConnectionLeft();
}

void Processor::Drop(NewConnection connection) {
  ring_->Close(connection.fd);
  if (connection.migration != nullptr) {
    if (charges_memory_) {
      MemoryPool& pool = channel_.memory();
      pool.Release(connection.migration->receive.charged_bytes(), MemoryUse::kPartial);
      pool.Release(connection.migration->next_frame_charged_bytes, MemoryUse::kWhole);
    }
    metrics_.connections_closed.Increment();
    metrics_.connections.Decrement();
  }
  connection.quota.Release();
  seat_.OnConnectionLeft();
}

void Processor::OnMigrated(NewConnection moved) {
  if (retiring_ && !draining_ && !closing_all_) {
    others_->Place(std::move(moved));
    seat_.OnConnectionLeft();
    return;
  }
  ConnectionMigration& migration = *moved.migration;
  Slot* slot = table_.Acquire();
  if (slot == nullptr) {
    // As many as one processor can have.
    return Drop(std::move(moved));
  }
  slot->connection = migration.connection.Migrated(limits_);
  slot->fd = moved.fd;
  slot->quota = std::move(moved.quota);
  slot->transport = &plaintext_;
  slot->last_progress_ns = migration.last_progress_ns;
  slot->session = std::move(migration.session);
  SlotMemory memory(*this, *slot);
  migration.receive.MoveTo(&slot->receive, memory);
  if (migration.has_next_frame) {
    slot->next_request =
        MakeRequest(*slot, std::move(migration.next_frame), migration.next_frame_charged_bytes);
  }
  slot->traffic = migration.traffic;
  slot->frame_late = migration.frame_late;
  slot->frame_started_ns = migration.frame_started_ns;
  slot->receive_pace.Begin(now_ns_);
  slot->throttle_end_ns = migration.throttle_end_ns;
  ReportThrottled(*slot);
  ArmDeadline(*slot, slot->last_progress_ns + IdleNs());
  // Orders that came between its two homes.
  const bool in_grace = drain_grace_ends_ns_ != kNever && slot->traffic.requests == 0;
  if (draining_ && !in_grace) {
    slot->connection.BeginDrain();
    stalled_check_ns_ = std::min(stalled_check_ns_, now_ns_ + kDrainStallCheckNs);
    ReportThrottled(*slot);
  }
  if (closing_all_) slot->connection.Abort();
  Settle(*slot);
}

}  // namespace gyre
