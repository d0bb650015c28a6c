// What somebody who mistyped a flag probably meant.
//
// Threads: any.
#ifndef GYRE_TOOLS_GYRED_FLAGS_NEAREST_NAME_H_
#define GYRE_TOOLS_GYRED_FLAGS_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gyre {

// The one of `names` that needs the fewest changes of letters to become `name`, or that
// `name` is a part of; dots and dashes count as underscores. "" when none is near.
std::string NearestName(absl::string_view name, const std::vector<std::string>& names);

// "; did you mean --NAME?", or "".
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names);

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_FLAGS_NEAREST_NAME_H_
