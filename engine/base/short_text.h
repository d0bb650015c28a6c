// A short piece of text in place: copied without allocating, cut when it is longer.
//
// Threads: a value.
#ifndef GYRE_ENGINE_BASE_SHORT_TEXT_H_
#define GYRE_ENGINE_BASE_SHORT_TEXT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace gyre {

template <uint8_t kMaxBytes>
class ShortText {
 public:
  void Set(absl::string_view text) {
    size_bytes_ = static_cast<uint8_t>(std::min<size_t>(text.size(), kMaxBytes));
    if (size_bytes_ > 0) std::memcpy(bytes_, text.data(), size_bytes_);
  }
  void Clear() { size_bytes_ = 0; }
  absl::string_view view() const { return {bytes_, size_bytes_}; }

 private:
  uint8_t size_bytes_ = 0;
  char bytes_[kMaxBytes];
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_SHORT_TEXT_H_
