#include "engine/network/request/resize_rule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gyre {

absl::Status CheckResize(absl::string_view what, int32_t from, int32_t to) {
  const int32_t least = std::max(1, from / 2);
  const int64_t most = int64_t{from} * 2;
  if (to >= least && to <= most) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(what, "=", to, " is out of range; from ", from,
                                            " it can go to ", least, " to ", most,
                                            " (half to double at a time)"));
}

}  // namespace gyre
