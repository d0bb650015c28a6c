// A processor's time: throttling and idle expiry, by one wheel entry a connection.
#include <algorithm>
#include <memory>

#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

// --- throttling --------------------------------------------------------------------

void Processor::OnThrottleSignal(ThrottleSignal* signal) {
  Slot* const slot = table_.Find(signal->slot, signal->generation);
  if (signal->kind == ResponseKind::kStartThrottling) {
    // Its request is in flight, so the connection is the one it names; unless somebody
    // throttles what was answered.
    DCHECK(slot != nullptr);
    if (slot != nullptr) StartThrottle(*slot, signal->end_ns);
    return;
  }
  const std::unique_ptr<ThrottleSignal> end(signal);
  if (slot == nullptr || !slot->connection.OnThrottleEnded()) return;
  slot->last_progress_ns = now_ns_;
  ReportThrottled(*slot);
  Settle(*slot);
}

void Processor::StartThrottle(Slot& slot, int64_t end_ns) {
  const bool timed = end_ns != ThrottleSignal::kUntilEnded;
  const bool extends = timed && slot.throttle_end_ns != 0;
  if (!extends && !slot.connection.OnThrottleStarted()) return;
  metrics_.throttles.Increment();
  const bool later = timed && end_ns > slot.throttle_end_ns;
  if (later) slot.throttle_end_ns = end_ns;
  ReportThrottled(slot);
  if (!later) return;
  ArmDeadline(slot, slot.last_progress_ns + IdleNs());
}

void Processor::ReportThrottled(Slot& slot) {
  const bool throttled = slot.connection.throttled();
  if (!throttled) slot.throttle_end_ns = 0;
  // What a token holds names the connection here; what the wheel times moves along.
  slot.connection.HoldMigration(slot.connection.throttles() > (slot.throttle_end_ns != 0 ? 1 : 0));
  if (throttled == slot.counted_as_throttled) return;
  slot.counted_as_throttled = throttled;
  if (throttled) {
    metrics_.throttled_connections.Increment();
  } else {
    metrics_.throttled_connections.Decrement();
  }
}

// --- deadlines ---------------------------------------------------------------------

void Processor::ArmDeadline(Slot& slot, int64_t idle_deadline_ns) {
  deadlines_.Cancel(&slot);
  int64_t deadline_ns = IdleNs() >= 0 ? idle_deadline_ns : ThreadBody::kNever;
  if (slot.throttle_end_ns != 0) deadline_ns = std::min(deadline_ns, slot.throttle_end_ns);
  deadline_ns = std::min(deadline_ns, FrameDeadlineNs(slot));
  if (slot.connection.may_miss_reset()) {
    deadline_ns = std::min(deadline_ns, slot.last_progress_ns + kQuietNs);
  }
  if (deadline_ns == ThreadBody::kNever) return;
  slot.deadline_ns = deadline_ns;
  deadlines_.Add(&slot);
}

void Processor::ExpireDeadlines() {
  if (deadlines_.size() == 0) return;
  TimerList expired;
  deadlines_.AdvanceTo(now_ns_, &expired);
  while (TimerEntry* entry = expired.PopFront()) OnDeadline(*static_cast<Slot*>(entry));
}

void Processor::OnDeadline(Slot& slot) {
  Connection& connection = slot.connection;
  if (connection.shutdown_done()) {
    // One that ended in good order has its answers as long as it takes them.
    if (!connection.output_dead() && connection.zero_copy_pending() > 0 && TakesOn(slot)) {
      slot.deadline_ns = now_ns_ + options_.zero_copy_close_timeout_ms * 1'000'000;
      deadlines_.Add(&slot);
      return;
    }
    OnCloseDeadline(slot);
    Settle(slot);
    return;
  }
  if (connection.lingering()) {
    OnLingerCheck(slot);
    Settle(slot);
    return;
  }
  if (slot.throttle_end_ns != 0 && slot.throttle_end_ns <= now_ns_) {
    slot.throttle_end_ns = 0;
    slot.last_progress_ns = now_ns_;
    connection.OnThrottleEnded();
    ReportThrottled(slot);
  }
  if (slot.last_progress_ns + kQuietNs <= now_ns_) connection.OnQuiet();
  // The entry is not moved by traffic; it is put where the last progress says.
  // Requests in flight and a throttling spare it, the former not for ever where the
  // peer has sent its FIN: a peer that is gone altogether looks the same.
  const bool at_rest = connection.idle() || connection.send_busy() ||
                       (connection.peer_finished() && !connection.throttled());
  const int64_t idle_deadline_ns = (at_rest ? slot.last_progress_ns : now_ns_) + IdleNs();
  if (IdleNs() >= 0 && idle_deadline_ns <= now_ns_) {
    metrics_.connections_expired.Increment();
    connection.Abort();
  } else if (FrameDeadlineNs(slot) <= now_ns_) {
    metrics_.connections_expired.Increment();
    OnFrameLate(slot, idle_deadline_ns);
  } else {
    ArmDeadline(slot, idle_deadline_ns);
  }
  Settle(slot);
}

int64_t Processor::FrameDeadlineNs(const Slot& slot) const {
  if (FrameNs() < 0) return ThreadBody::kNever;
  // A frame may begin at any time: without one under way this is the next look. That it
  // waits for memory is not its peer's fault.
  return (AwaitsRestOfFrame(slot) ? slot.frame_started_ns : now_ns_) + FrameNs();
}

bool Processor::AwaitsRestOfFrame(const Slot& slot) const {
  return slot.receive.mid_frame() && slot.connection.idle() &&
         !slot.connection.waiting_for_memory();
}

void Processor::OnFrameLate(Slot& slot, int64_t idle_deadline_ns) {
  if (slot.frame_late || !slot.decoder().hands_over_late_frames() ||
      slot.receive.in_large_frame()) {
    slot.connection.Abort();
    return;
  }
  // Its last chance: the answer to it has as long as the frame had.
  slot.frame_late = true;
  slot.frame_started_ns = now_ns_;
  ArmDeadline(slot, idle_deadline_ns);
  ReportInput(slot, true);
}

}  // namespace gyre
