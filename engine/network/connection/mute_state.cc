#include "engine/network/connection/mute_state.h"

namespace gyre {

const char* ToString(MuteState state) {
  switch (state) {
    case MuteState::kNotMuted:
      return "NOT_MUTED";
    case MuteState::kMuted:
      return "MUTED";
    case MuteState::kMutedAndResponsePending:
      return "MUTED_AND_RESPONSE_PENDING";
    case MuteState::kMutedAndThrottled:
      return "MUTED_AND_THROTTLED";
    case MuteState::kMutedAndThrottledAndResponsePending:
      return "MUTED_AND_THROTTLED_AND_RESPONSE_PENDING";
  }
  return "?";
}

}  // namespace gyre
