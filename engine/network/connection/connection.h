// What one connection should do next. Events go in (bytes came, a response is
// ready, an operation was retired); Decide() says the one next step; the processor
// takes it, reports it as an event and asks again until there is none. No ring, no
// descriptor, no clock: every rule about muting, receive-ahead, half-close, closing
// order and when a slot is free lives here and is tested without a kernel.
//
// Threads: owner (the connection's processor).
// Owns: nothing but its state.
// Invariant: Decide() is kFree only with no operation in the kernel and no request
// on the handlers' side; a receive is armed at most once; at most one operation of
// the sending side is in flight.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_H_

#include <cstdint>

#include "engine/network/connection/mute_state.h"

namespace gyre {

enum class ConnectionStep : uint8_t {
  kNone,
  kReceive,        // arm a receive into provided buffers
  kReceiveDirect,  // go on with a large frame, straight into its range
  kCancelReceive,  // stop the armed receive
  kWatchHangup,    // poll for a hang-up while nothing is received
  kDispatch,       // look for whole frames and hand over a run
  kSend,           // go on with the oldest response that is ready
  kDropResponses,  // nothing can be sent any more: those that are ready end here
  kDetach,         // about to migrate: take back what is in the kernel
  kMigrate,        // nothing is in flight: to another processor
  kLinger,         // all was answered: end the sending side, if the peer has yet to take some
  kShutdown,       // shut the socket down and cancel what is in flight
  kClose,          // nothing in flight: close the descriptor
  kFree,           // the slot may have a new life
};
const char* ToString(ConnectionStep step);

class Connection {
 public:
  struct Limits {
    int64_t receive_ahead_bytes = 64 * 1024;
    // The same for a frame that waits for memory and would then be whole.
    int64_t complete_ahead_bytes = 64 * 1024;
    int32_t max_in_flight = 1;
    int64_t max_in_flight_bytes = INT64_MAX;
    bool receive_is_multishot = true;
  };

  // The receiving side's operation in the kernel.
  enum class Receiving : uint8_t { kNone, kProvided, kDirect };

  explicit Connection(const Limits& limits) : limits_(&limits) {}

  ConnectionStep Decide() const;

  // --- receiving -------------------------------------------------------------
  // A receive was submitted (or a wait for readiness ahead of a direct one).
  void OnReceiveArmed(Receiving kind) {
    receiving_ = kind;
    cancel_sent_ = false;
  }
  void OnCancelSent() { cancel_sent_ = true; }
  // The receive was retired; more may be armed.
  void OnReceiveRetired() {
    receiving_ = Receiving::kNone;
    cancel_sent_ = false;
  }
  // What lies unparsed now, whether a large frame waits for direct bytes, whether
  // a frame is under way; `news`: bytes came that were not looked at.
  void OnInput(int64_t unparsed_bytes, bool wants_direct, bool in_large_frame, bool mid_frame,
               bool news) {
    if (news && draining_ && mid_frame_ && !unseen_input_) completes_last_frame_ = true;
    unparsed_bytes_ = unparsed_bytes;
    wants_direct_ = wants_direct;
    in_large_frame_ = in_large_frame;
    mid_frame_ = mid_frame;
    if (news) unseen_input_ = true;
  }
  // The peer sent its FIN: what it sent before is still served.
  void OnPeerFinished() { peer_finished_ = true; }
  // A reset or an error: whole frames that came are started, answers are dropped.
  void OnPeerLost() {
    peer_finished_ = true;
    output_dead_ = true;
  }
  // Nothing came for a while. A multishot receive that delivered bytes just when a reset
  // came may never tell of the reset (seen on Linux 6.18); from here on a watch does.
  void OnQuiet() { quiet_ = true; }
  // Whether that is of use.
  bool may_miss_reset() const { return !quiet_ && limits_->receive_is_multishot; }
  void OnHangupWatchArmed() { hangup_watch_ = true; }
  // `again` false: it has told all it will.
  void OnHangupWatchRetired(bool again) {
    hangup_watch_ = false;
    hangup_told_ = !again;
  }
  // Waiting for provided buffers, for memory, or for room in the request channel.
  void SetStarved(bool starved) { starved_ = starved; }
  // `completes_frame`: what it waits with is received on, and whole it need not wait.
  void SetWaitingForMemory(bool waiting, bool completes_frame = false) {
    waiting_for_memory_ = waiting;
    completes_frame_ = completes_frame;
  }
  void SetParked(bool parked) { parked_ = parked; }
  bool starved() const { return starved_; }
  bool waiting_for_memory() const { return waiting_for_memory_; }
  bool parked() const { return parked_; }

  // --- requests ----------------------------------------------------------------
  // How many frames the next run may have; 0: none may be taken now.
  int32_t run_room() const;
  // Nothing whole is left among the bytes at hand.
  void OnInputExhausted() { unseen_input_ = false; }
  // Whether a frame may join those in flight and the `run_bytes` that are about to be;
  // one at a time always may, however large.
  bool has_byte_room(int64_t run_bytes) const {
    return in_flight_bytes_ + run_bytes < limits_->max_in_flight_bytes;
  }
  // A run of `count` <= run_room() requests was handed over. `alone`: of one request,
  // with nothing before it in flight and nothing after it until it is answered.
  void OnRunDispatched(int32_t count, int64_t bytes, bool wants_started_notice, bool alone);
  void OnRunStarted() { run_active_ = false; }
  // The oldest `count` requests can leave; they count as in flight until sent.
  void OnResponsesReady(int32_t count) { ready_ += count; }
  // The limits have other numbers now. Those in flight beyond them are answered first.
  void OnLimitsChanged();
  // Of the requests in flight: their bytes until the response, its bytes after.
  void OnInFlightBytes(int64_t change) { in_flight_bytes_ += change; }
  // One ready response is done: sent, empty, or dropped.
  void OnResponseSent(int64_t bytes);
  // The next request was looked at and must start alone.
  void SetNextAlone(bool alone) { next_alone_ = alone; }
  // It had its share of this turn: others first.
  void SetYielded(bool yielded) { yielded_ = yielded; }
  // Kafka's throttling (KIP-219): no request is taken until every throttling that
  // started has ended and the answers that are due have left. Until a request went
  // by without being throttled there is one in flight at a time, however many are
  // allowed. False: it is closing or draining, so nothing is throttled.
  bool OnThrottleStarted();
  // False: none was left to end.
  bool OnThrottleEnded();
  // All of them end.
  void EndThrottling();
  bool throttled() const { return throttles_ > 0; }
  int32_t throttles() const { return throttles_; }

  // --- sending -----------------------------------------------------------------
  // The sending side waits for the kernel, a pipe or its next turn.
  void OnSendBusy() { send_busy_ = true; }
  void OnSendIdle() { send_busy_ = false; }
  // Sending failed: nothing more can leave.
  void OnSendFailed() { output_dead_ = true; }

  // --- operations ----------------------------------------------------------------
  void OnOperationSubmitted() { ++operations_; }
  void OnOperationRetired() { --operations_; }

  // Bytes of one send were lent to the kernel, or came back.
  void OnZeroCopyPinned() { ++zero_copy_pending_; }
  void OnZeroCopyReleased() { --zero_copy_pending_; }
  // Sends whose notification is not in. Whoever takes the connection to another
  // ring waits until there is none.
  int32_t zero_copy_pending() const { return zero_copy_pending_; }

  // --- migration -----------------------------------------------------------------
  // No more requests are handed over; once those in flight are answered the
  // connection goes to another processor, with what was received. Closing comes first.
  void BeginMigration() { migrating_ = true; }
  // While held it stays and is served on, except that no more requests are taken.
  void HoldMigration(bool hold) { migration_held_ = hold; }
  // What was in the kernel was cancelled; nothing is submitted any more.
  void OnDetached() { detached_ = true; }
  // The same connection, at kMigrate, on a processor with these limits.
  Connection Migrated(const Limits& limits) const;

  // --- closing -------------------------------------------------------------------
  // No more requests are taken; what is in flight is answered, then closed.
  void CloseAfterFlush() { closing_ = true; }
  // Nothing is sent any more either.
  void Abort() { aborting_ = true; }
  // What has come is answered, and a frame of which a part has; then it ends, whatever
  // else its peer sends. A throttling ends: it protects a server that goes on.
  void BeginDrain() {
    draining_ = true;
    EndThrottling();
  }
  // The sending side has ended. What the peer still sends is received and dropped, so that
  // the kernel does not reset a connection whose last answers are on their way.
  void OnLingering() { lingering_ = true; }
  // The peer has everything, or was waited for long enough: as if it had ended, too.
  void OnLingerOver() { peer_finished_ = true; }
  void OnShutdownDone() { shutdown_done_ = true; }
  // The peer had its time to acknowledge what zero copy pins.
  void OnCloseDue() { close_due_ = true; }
  void OnClosed() { closed_ = true; }

  int32_t in_flight() const { return in_flight_; }
  int32_t ready() const { return ready_; }
  int32_t operations() const { return operations_; }
  Receiving receiving() const { return receiving_; }
  MuteState mute() const { return mute_; }
  bool send_busy() const { return send_busy_; }
  bool output_dead() const { return output_dead_ || aborting_; }
  bool peer_finished() const { return peer_finished_; }
  // As of the last OnInput.
  bool mid_frame() const { return mid_frame_; }
  bool closing() const { return closing_ || aborting_ || lingering_ || shutdown_done_; }
  bool lingering() const { return lingering_ && !shutdown_done_; }
  bool shutdown_done() const { return shutdown_done_; }
  bool closed() const { return closed_; }
  bool hangup_watch() const { return hangup_watch_; }
  bool hangup_told() const { return hangup_told_; }
  // Whether a receive is to be armed while there is none.
  bool TakesBytes() const;
  bool migrating() const { return migrating_; }
  bool detached() const { return detached_; }
  // Nothing under way on either side: idle expiry may take it.
  bool idle() const { return in_flight_ == 0 && !send_busy_ && !parked_ && !throttled(); }

 private:
  bool ShouldEnd() const;
  bool WantsCancel() const;
  // False: it is draining, and what is to be served is here.
  bool TakesMoreBytes() const {
    return !draining_ || (mid_frame_ && !unseen_input_ && !last_frame_taken_);
  }
  bool receives_multishot() const {
    return receiving_ == Receiving::kProvided && limits_->receive_is_multishot;
  }
  int64_t ahead_limit() const {
    return completes_frame_ ? limits_->complete_ahead_bytes : limits_->receive_ahead_bytes;
  }
  int32_t in_flight_limit() const {
    return one_at_a_time_ || alone_in_flight_ ? 1 : limits_->max_in_flight;
  }
  void ApplyMute(MuteEvent event);
  // No more requests are taken until the pending answers have left.
  void MuteUntilAnswered();
  // The pending state ends with the answer that makes room.
  void MaybeEndPending();

  const Limits* limits_;
  int64_t unparsed_bytes_ = 0;
  int64_t in_flight_bytes_ = 0;
  int32_t in_flight_ = 0;  // handed over and not yet sent
  int32_t ready_ = 0;      // of those: may be sent now
  int32_t zero_copy_pending_ = 0;
  int32_t throttles_ = 0;   // started and not ended
  int16_t operations_ = 0;  // in the kernel
  Receiving receiving_ : 7 = Receiving::kNone;
  bool quiet_ : 1 = false;
  MuteState mute_ = MuteState::kNotMuted;
  bool cancel_sent_ : 1 = false;
  bool unseen_input_ : 1 = false;
  bool wants_direct_ : 1 = false;
  bool in_large_frame_ : 1 = false;
  bool mid_frame_ : 1 = false;
  bool peer_finished_ : 1 = false;
  bool output_dead_ : 1 = false;
  bool hangup_watch_ : 1 = false;
  bool hangup_told_ : 1 = false;
  bool starved_ : 1 = false;
  bool waiting_for_memory_ : 1 = false;
  bool completes_frame_ : 1 = false;
  bool parked_ : 1 = false;
  bool run_active_ : 1 = false;
  bool one_at_a_time_ : 1 = false;
  bool next_alone_ : 1 = false;
  bool alone_in_flight_ : 1 = false;
  bool yielded_ : 1 = false;
  bool throttled_since_dispatch_ : 1 = false;
  bool send_busy_ : 1 = false;
  bool closing_ : 1 = false;
  bool aborting_ : 1 = false;
  bool draining_ : 1 = false;
  bool completes_last_frame_ : 1 = false;  // bytes came after the drain began
  bool last_frame_taken_ : 1 = false;      // which they were for
  bool lingering_ : 1 = false;
  bool migrating_ : 1 = false;
  bool migration_held_ : 1 = false;
  bool detached_ : 1 = false;
  bool shutdown_done_ : 1 = false;
  bool close_due_ : 1 = false;
  bool closed_ : 1 = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_H_
