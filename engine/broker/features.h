// The feature levels this program understands: what ApiVersions offers, and
// what a new metadata log starts with.
#ifndef GYRE_ENGINE_BROKER_FEATURES_H_
#define GYRE_ENGINE_BROKER_FEATURES_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gyre {

struct SupportedFeature {
  absl::string_view name;
  int16_t min_level;
  int16_t max_level;
  // The level a new cluster begins with; 0 = not enabled.
  int16_t initial_level;
};

// A new cluster starts with metadata.version 25, Kafka 4.0's: every record we
// write exists there, and the tools of that release and later ones read it. The
// records of 33, 4.4's, are understood. transaction.version is left
// out: level 2 would make producers skip requests that a broker must then do
// for them.
inline constexpr SupportedFeature kSupportedFeatures[] = {
    {"metadata.version", 7, 33, 25},
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_FEATURES_H_
