// A 128-bit identifier: of a topic, a cluster, a directory, a process life.
//
// On the wire it is 16 big-endian bytes, `hi` first. In text (files, tools, logs) it is
// 22 characters of URL-safe base64 without padding. All zero means "none".
//
// Threads: immutable value.
#ifndef GYRE_ENGINE_BASE_UUID_H_
#define GYRE_ENGINE_BASE_UUID_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace gyre {

struct Uuid {
  static constexpr size_t kSize = 16;
  static constexpr size_t kTextSize = 22;
  static const Uuid kZero;

  uint64_t hi = 0;
  uint64_t lo = 0;

  bool is_zero() const { return hi == 0 && lo == 0; }

  // 22 characters of [A-Za-z0-9_-].
  std::string ToString() const;

  // The inverse of ToString. Anything else is refused: another length, a character
  // outside the alphabet, or last bits that no identifier has.
  static std::optional<Uuid> Parse(absl::string_view text);

  bool operator==(const Uuid&) const = default;
  auto operator<=>(const Uuid&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const Uuid& uuid) {
    return H::combine(std::move(state), uuid.hi, uuid.lo);
  }
};

inline constexpr Uuid Uuid::kZero{};

std::ostream& operator<<(std::ostream& out, const Uuid& uuid);

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_UUID_H_
