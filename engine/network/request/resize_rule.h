// Kafka's rule for changing a number of threads at run time.
//
// Threads: any.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_RESIZE_RULE_H_
#define GYRE_ENGINE_NETWORK_REQUEST_RESIZE_RULE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gyre {

// From half (rounded down) to double of what there is, and at least one; else
// OUT_OF_RANGE, which names the range.
absl::Status CheckResize(absl::string_view what, int32_t from, int32_t to);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_RESIZE_RULE_H_
