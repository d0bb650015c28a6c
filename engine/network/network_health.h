// Whether a server's threads get on: which of them has been at one thing for too long.
//
// Threads: any.
#ifndef GYRE_ENGINE_NETWORK_NETWORK_HEALTH_H_
#define GYRE_ENGINE_NETWORK_NETWORK_HEALTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/network/network_plane.h"
#include "engine/network/network_threads.h"

namespace gyre {

// UNAVAILABLE names a processor that has been in one turn for `stuck_ms` or longer: its
// connections are not served meanwhile.
absl::Status CheckProcessorsGetOn(const NetworkThreads& threads, absl::string_view name_prefix,
                                  int64_t stuck_ms, const Clock& clock);

// UNAVAILABLE names the plane's handler that has been in one request, or in one piece of
// work beside requests, for `stuck_ms` or longer, of several the one for longest, with the
// request's lane and API. One that waits for work is never named.
absl::Status CheckHandlersGetOn(const NetworkPlane& plane,
                                const std::vector<std::string>& api_names, int64_t stuck_ms,
                                const Clock& clock);

// How long the plane's handlers have been in what they are at, the longest of them; 0
// while none is in anything.
int64_t LongestHandlerTurnMs(const NetworkPlane& plane, const Clock& clock);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_NETWORK_HEALTH_H_
