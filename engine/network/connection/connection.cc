#include "engine/network/connection/connection.h"

#include <algorithm>

#include "glog/logging.h"

namespace gyre {

ConnectionStep Connection::Decide() const {
  if (shutdown_done_) {
    if (ready_ > 0 && !send_busy_) return ConnectionStep::kDropResponses;
    if (operations_ > 0 || send_busy_) return ConnectionStep::kNone;
    // Once closed it can no longer be reset, and how long the kernel reads pinned
    // bytes would be up to the peer.
    if (!closed_ && zero_copy_pending_ > 0 && !close_due_) return ConnectionStep::kNone;
    if (!closed_) return ConnectionStep::kClose;
    // Requests on the handlers' side point into the slot, and so do notifications.
    return in_flight_ == 0 && !run_active_ && zero_copy_pending_ == 0 ? ConnectionStep::kFree
                                                                      : ConnectionStep::kNone;
  }
  if (aborting_) return ConnectionStep::kShutdown;
  if (lingering_) {
    if (peer_finished_) return ConnectionStep::kShutdown;
    return receiving_ == Receiving::kNone && !starved_ ? ConnectionStep::kReceive
                                                       : ConnectionStep::kNone;
  }
  if (ready_ > 0 && !send_busy_) {
    return output_dead_ ? ConnectionStep::kDropResponses : ConnectionStep::kSend;
  }
  if (unseen_input_ && run_room() > 0) return ConnectionStep::kDispatch;
  if (ShouldEnd()) return peer_finished_ ? ConnectionStep::kShutdown : ConnectionStep::kLinger;
  // While requests are in flight everything goes on as ever, but no more are taken.
  if (migrating_ && !migration_held_ && in_flight_ == 0 && !send_busy_ && !run_active_ &&
      !parked_ && zero_copy_pending_ == 0) {
    if (!detached_) return ConnectionStep::kDetach;
    return operations_ == 0 ? ConnectionStep::kMigrate : ConnectionStep::kNone;
  }
  if (receiving_ == Receiving::kNone && TakesBytes()) {
    return wants_direct_ ? ConnectionStep::kReceiveDirect : ConnectionStep::kReceive;
  }
  if (WantsCancel()) return ConnectionStep::kCancelReceive;
  const bool wants_watch = receiving_ == Receiving::kNone || (quiet_ && receives_multishot());
  if (wants_watch && !peer_finished_ && !hangup_watch_ && !hangup_told_) {
    return ConnectionStep::kWatchHangup;
  }
  return ConnectionStep::kNone;
}

int32_t Connection::run_room() const {
  if (closing_ || migrating_ || parked_ || waiting_for_memory_ || run_active_ || yielded_) return 0;
  if (mute_ != MuteState::kNotMuted) return 0;
  if (in_flight_ > 0 && (next_alone_ || !has_byte_room(0))) return 0;
  return std::max(0, in_flight_limit() - in_flight_);
}

Connection Connection::Migrated(const Limits& limits) const {
  DCHECK(detached_ && operations_ == 0 && in_flight_ == 0 && receiving_ == Receiving::kNone);
  Connection migrated = *this;
  migrated.limits_ = &limits;
  migrated.migrating_ = false;
  migrated.detached_ = false;
  migrated.draining_ = false;
  migrated.completes_last_frame_ = false;
  migrated.last_frame_taken_ = false;
  migrated.starved_ = false;
  migrated.SetWaitingForMemory(false);
  return migrated;
}

bool Connection::ShouldEnd() const {
  // Nobody is there to be answered: the socket need not wait for the handlers.
  if (output_dead_ && peer_finished_ && !unseen_input_ && !parked_ && !send_busy_) return true;
  if (in_flight_ > 0 || send_busy_ || run_active_) return false;
  if (closing_) return true;
  if (parked_ || unseen_input_) return false;
  // A frame that was begun and will never be whole is dropped.
  if (peer_finished_) return true;
  return draining_ && (!mid_frame_ || last_frame_taken_);
}

bool Connection::TakesBytes() const {
  if (peer_finished_ || closing_) return false;
  if (starved_ || (waiting_for_memory_ && !completes_frame_)) return false;
  return TakesMoreBytes() && unparsed_bytes_ <= ahead_limit();
}

bool Connection::WantsCancel() const {
  if (receiving_ != Receiving::kProvided || cancel_sent_) return false;
  if (closing_ || !TakesMoreBytes()) return true;
  // A one-shot receive ends by itself, unless it would take bytes that belong to
  // a large frame; those are copied over, which costs at most one buffer.
  if (!limits_->receive_is_multishot) return false;
  return wants_direct_ || in_large_frame_ || unparsed_bytes_ > ahead_limit();
}

void Connection::ApplyMute(MuteEvent event) {
  const MuteTransition next = NextMuteState(mute_, event);
  DCHECK(next.valid) << ToString(mute_) << " event " << static_cast<int>(event);
  if (next.valid) mute_ = MaybeUnmute(next.to);
}

void Connection::MuteUntilAnswered() {
  if (mute_ != MuteState::kNotMuted) return;
  mute_ = NextMuteState(Mute(mute_).to, MuteEvent::kRequestReceived).to;
}

void Connection::OnRunDispatched(int32_t count, int64_t bytes, bool wants_started_notice,
                                 bool alone) {
  DCHECK(!alone || (count == 1 && in_flight_ == 0));
  if (in_flight_ == 0) throttled_since_dispatch_ = false;
  alone_in_flight_ = alone;
  in_flight_ += count;
  in_flight_bytes_ += bytes;
  run_active_ = wants_started_notice;
  if (completes_last_frame_) last_frame_taken_ = true;
  if (in_flight_ >= in_flight_limit()) MuteUntilAnswered();
}

void Connection::OnResponseSent(int64_t bytes) {
  DCHECK_GT(in_flight_, 0);
  DCHECK_GT(ready_, 0);
  --in_flight_;
  --ready_;
  in_flight_bytes_ -= bytes;
  alone_in_flight_ = false;
  if (in_flight_ == 0 && !throttled_since_dispatch_) one_at_a_time_ = false;
  MaybeEndPending();
}

void Connection::MaybeEndPending() {
  const bool pending = mute_ == MuteState::kMutedAndResponsePending ||
                       mute_ == MuteState::kMutedAndThrottledAndResponsePending;
  if (pending && in_flight_ < in_flight_limit()) ApplyMute(MuteEvent::kResponseSent);
}

void Connection::OnLimitsChanged() {
  MaybeEndPending();
  if (in_flight_ >= in_flight_limit()) MuteUntilAnswered();
}

bool Connection::OnThrottleStarted() {
  if (closing() || draining_) return false;
  DCHECK_GT(in_flight_, 0) << "a throttling starts before the answer of its request";
  one_at_a_time_ = true;
  throttled_since_dispatch_ = true;
  // The table knows of one; those of several requests in flight overlap.
  if (throttles_++ > 0) return true;
  MuteUntilAnswered();
  ApplyMute(MuteEvent::kThrottleStarted);
  return true;
}

bool Connection::OnThrottleEnded() {
  if (throttles_ == 0) return false;
  if (--throttles_ == 0) ApplyMute(MuteEvent::kThrottleEnded);
  return true;
}

void Connection::EndThrottling() {
  while (OnThrottleEnded()) {
  }
}

const char* ToString(ConnectionStep step) {
  switch (step) {
    case ConnectionStep::kNone:
      return "None";
    case ConnectionStep::kReceive:
      return "Receive";
    case ConnectionStep::kReceiveDirect:
      return "ReceiveDirect";
    case ConnectionStep::kCancelReceive:
      return "CancelReceive";
    case ConnectionStep::kWatchHangup:
      return "WatchHangup";
    case ConnectionStep::kDispatch:
      return "Dispatch";
    case ConnectionStep::kSend:
      return "Send";
    case ConnectionStep::kDropResponses:
      return "DropResponses";
    case ConnectionStep::kDetach:
      return "Detach";
    case ConnectionStep::kMigrate:
      return "Migrate";
    case ConnectionStep::kLinger:
      return "Linger";
    case ConnectionStep::kShutdown:
      return "Shutdown";
    case ConnectionStep::kClose:
      return "Close";
    case ConnectionStep::kFree:
      return "Free";
  }
  return "?";
}

}  // namespace gyre
