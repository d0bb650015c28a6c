#include "engine/network/connection/mute_state.h"

#include <map>
#include <utility>

#include "gtest/gtest.h"

namespace gyre {
namespace {

using S = MuteState;
using E = MuteEvent;

constexpr S kStates[] = {S::kNotMuted, S::kMuted, S::kMutedAndResponsePending,
                         S::kMutedAndThrottled, S::kMutedAndThrottledAndResponsePending};
constexpr E kEvents[] = {E::kRequestReceived, E::kResponseSent, E::kThrottleStarted,
                         E::kThrottleEnded};

TEST(MuteStateTest, EveryPairOfStateAndEventIsAsKafkaHasIt) {
  const std::map<std::pair<S, E>, S> legal = {
      {{S::kMuted, E::kRequestReceived}, S::kMutedAndResponsePending},
      {{S::kMutedAndResponsePending, E::kResponseSent}, S::kMuted},
      {{S::kMutedAndResponsePending, E::kThrottleStarted}, S::kMutedAndThrottledAndResponsePending},
      {{S::kMutedAndThrottled, E::kThrottleEnded}, S::kMuted},
      {{S::kMutedAndThrottledAndResponsePending, E::kResponseSent}, S::kMutedAndThrottled},
      {{S::kMutedAndThrottledAndResponsePending, E::kThrottleEnded}, S::kMutedAndResponsePending},
  };
  for (const S state : kStates) {
    for (const E event : kEvents) {
      const MuteTransition next = NextMuteState(state, event);
      const auto found = legal.find({state, event});
      ASSERT_EQ(next.valid, found != legal.end())
          << ToString(state) << " event " << static_cast<int>(event);
      if (next.valid) EXPECT_EQ(next.to, found->second) << ToString(state);
    }
  }
}

TEST(MuteStateTest, MutingIsLegalOnlyOnce) {
  for (const S state : kStates) EXPECT_EQ(Mute(state).valid, state == S::kNotMuted);
}

TEST(MuteStateTest, UnmutingTakesEffectOnlyWithNothingPending) {
  for (const S state : kStates) {
    EXPECT_EQ(MaybeUnmute(state), state == S::kMuted ? S::kNotMuted : state);
  }
}

TEST(MuteStateTest, UnmuteHappensAtTheLaterOfResponseAndThrottleEnd) {
  for (const bool throttle_first : {true, false}) {
    S state = Mute(S::kNotMuted).to;
    state = NextMuteState(state, E::kRequestReceived).to;
    state = NextMuteState(state, E::kThrottleStarted).to;
    state = NextMuteState(state, throttle_first ? E::kThrottleEnded : E::kResponseSent).to;
    EXPECT_NE(MaybeUnmute(state), S::kNotMuted);
    state = NextMuteState(state, throttle_first ? E::kResponseSent : E::kThrottleEnded).to;
    EXPECT_EQ(MaybeUnmute(state), S::kNotMuted);
  }
}

}  // namespace
}  // namespace gyre
