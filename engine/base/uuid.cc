#include "engine/base/uuid.h"

#include <ostream>

namespace gyre {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// The 6 bits a character stands for, or -1.
int BitsOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-') return 62;
  if (c == '_') return 63;
  return -1;
}

}  // namespace

// 22 characters hold 132 bits: the identifier, then four zero bits.
std::string Uuid::ToString() const {
  std::string text(kTextSize, 'A');
  unsigned __int128 bits = (static_cast<unsigned __int128>(hi) << 64) | lo;
  text[kTextSize - 1] = kAlphabet[static_cast<int>(bits & 3) << 4];
  bits >>= 2;
  for (size_t i = kTextSize - 1; i-- > 0;) {
    text[i] = kAlphabet[static_cast<int>(bits & 63)];
    bits >>= 6;
  }
  return text;
}

std::optional<Uuid> Uuid::Parse(absl::string_view text) {
  if (text.size() != kTextSize) return std::nullopt;
  unsigned __int128 bits = 0;
  for (size_t i = 0; i + 1 < kTextSize; ++i) {
    const int six = BitsOf(text[i]);
    if (six < 0) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(six);
  }
  const int last = BitsOf(text[kTextSize - 1]);
  if (last < 0 || (last & 15) != 0) return std::nullopt;
  bits = bits << 2 | static_cast<unsigned>(last >> 4);
  return Uuid{.hi = static_cast<uint64_t>(bits >> 64), .lo = static_cast<uint64_t>(bits)};
}

std::ostream& operator<<(std::ostream& out, const Uuid& uuid) { return out << uuid.ToString(); }

}  // namespace gyre
