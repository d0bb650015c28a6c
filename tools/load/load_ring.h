// The ring of a generator's thread.
#ifndef GYRE_TOOLS_LOAD_LOAD_RING_H_
#define GYRE_TOOLS_LOAD_LOAD_RING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/uring/ring.h"
#include "tools/load/options.h"

namespace gyre::load {

// Without batched waits: what they gather would be measured as the server's time.
absl::StatusOr<std::unique_ptr<uring::Ring>> MakeLoadRing(const Options& options);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_LOAD_RING_H_
