// The kernel's ring behind Ring. Made on any thread, used by the one that
// attaches to it: with SINGLE_ISSUER it starts disabled and is enabled there.
//
// Waits are batched under load only: where the kernel has a minimum wait and
// recent batches average at least kBatchThreshold completions, a wait asks for
// about as many, but settles for one after kMinWaitUs. A lightly loaded ring
// waits for one completion and answers it at once.
#ifndef GYRE_ENGINE_URING_URING_RING_H_
#define GYRE_ENGINE_URING_URING_RING_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/uring/features.h"
#include "engine/uring/ring.h"

namespace gyre::uring {

struct RingOptions {
  // Powers of two. The completion queue takes at least four times the
  // submission queue; give it one entry for each operation that may complete
  // at once (about two per connection).
  uint32_t submission_entries = 512;
  uint32_t completion_entries = 4096;
  // Kernel worker threads for what cannot be done without blocking (cold
  // reads, splices, syncs). The kernel's own bound is the process limit.
  uint32_t bounded_workers = 4;
  uint32_t unbounded_workers = 4;
};

inline constexpr uint32_t kBatchThreshold = 4;
inline constexpr uint32_t kMaxBatch = 16;
inline constexpr uint32_t kMinWaitUs = 20;

// Fails with one actionable line (setup_error.h). Ignores SIGPIPE for the
// process where it still has its default action: sendfile and splice raise it.
absl::StatusOr<std::unique_ptr<Ring>> CreateUringRing(const Features& features,
                                                      const RingOptions& options);

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_URING_RING_H_
