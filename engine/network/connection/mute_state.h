// When a connection may hand over its next request: Kafka's five mute states and
// four events (KIP-219), as a table the compiler checks. Muting says nothing about
// receiving bytes, which goes on up to a bound.
//
// Threads: immutable values.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_MUTE_STATE_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_MUTE_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace gyre {

enum class MuteState : uint8_t {
  kNotMuted = 0,
  kMuted,
  kMutedAndResponsePending,
  kMutedAndThrottled,
  kMutedAndThrottledAndResponsePending,
};
inline constexpr int kMuteStateCount = 5;

enum class MuteEvent : uint8_t {
  kRequestReceived = 0,
  kResponseSent,  // or dropped, or a response without bytes
  kThrottleStarted,
  kThrottleEnded,
};
inline constexpr int kMuteEventCount = 4;

// `valid` false: the event must not happen in that state (our bug, not a peer's).
struct MuteTransition {
  bool valid = false;
  MuteState to = MuteState::kNotMuted;
};

namespace mute_internal {

using State = MuteState;
inline constexpr MuteTransition kNever = {};
constexpr MuteTransition To(State state) { return {true, state}; }

// Rows: the state; columns: request received, response sent, throttle started,
// throttle ended.
inline constexpr std::array<std::array<MuteTransition, kMuteEventCount>, kMuteStateCount> kTable = {
    {
        /* NotMuted */ {kNever, kNever, kNever, kNever},
        /* Muted */ {To(State::kMutedAndResponsePending), kNever, kNever, kNever},
        /* MutedAndResponsePending */
        {kNever, To(State::kMuted), To(State::kMutedAndThrottledAndResponsePending), kNever},
        /* MutedAndThrottled */ {kNever, kNever, kNever, To(State::kMuted)},
        /* MutedAndThrottledAndResponsePending */
        {kNever, To(State::kMutedAndThrottled), kNever, To(State::kMutedAndResponsePending)},
    }};

}  // namespace mute_internal

constexpr MuteTransition NextMuteState(MuteState state, MuteEvent event) {
  return mute_internal::kTable[static_cast<size_t>(state)][static_cast<size_t>(event)];
}

// The two calls beside the events: muting is legal from kNotMuted only, unmuting
// takes effect from kMuted only (elsewhere it is no error and changes nothing).
constexpr MuteTransition Mute(MuteState state) {
  return state == MuteState::kNotMuted ? MuteTransition{true, MuteState::kMuted} : MuteTransition{};
}
constexpr MuteState MaybeUnmute(MuteState state) {
  return state == MuteState::kMuted ? MuteState::kNotMuted : state;
}

const char* ToString(MuteState state);

// A request's plain life.
static_assert(Mute(MuteState::kNotMuted).to == MuteState::kMuted);
static_assert(NextMuteState(MuteState::kMuted, MuteEvent::kRequestReceived).to ==
              MuteState::kMutedAndResponsePending);
static_assert(MaybeUnmute(MuteState::kMutedAndResponsePending) ==
              MuteState::kMutedAndResponsePending);
static_assert(NextMuteState(MuteState::kMutedAndResponsePending, MuteEvent::kResponseSent).to ==
              MuteState::kMuted);
static_assert(MaybeUnmute(MuteState::kMuted) == MuteState::kNotMuted);
// Throttled: unmuted at the later of the response and the end of throttling.
static_assert(
    NextMuteState(MuteState::kMutedAndThrottledAndResponsePending, MuteEvent::kResponseSent).to ==
    MuteState::kMutedAndThrottled);
static_assert(MaybeUnmute(MuteState::kMutedAndThrottled) == MuteState::kMutedAndThrottled);
static_assert(
    NextMuteState(MuteState::kMutedAndThrottledAndResponsePending, MuteEvent::kThrottleEnded).to ==
    MuteState::kMutedAndResponsePending);
static_assert(!NextMuteState(MuteState::kMutedAndThrottled, MuteEvent::kThrottleStarted).valid);
static_assert(!NextMuteState(MuteState::kNotMuted, MuteEvent::kRequestReceived).valid);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_MUTE_STATE_H_
