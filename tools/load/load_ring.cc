#include "tools/load/load_ring.h"

#include "engine/base/status_macros.h"
#include "engine/uring/features.h"
#include "engine/uring/uring_ring.h"

namespace gyre::load {

absl::StatusOr<std::unique_ptr<uring::Ring>> MakeLoadRing(const Options& options) {
  GYRE_ASSIGN_OR_RETURN(uring::FeatureSet hidden, uring::ParseDisabled(options.uring_disable),
                        "--uring_disable");
  hidden.Add(uring::Feature::kMinWait);
  GYRE_ASSIGN_OR_RETURN(const uring::Features features, uring::ProbeFeatures(hidden));
  uring::RingOptions ring_options;
  ring_options.completion_entries = 16384;
  return uring::CreateUringRing(features, ring_options);
}

}  // namespace gyre::load
