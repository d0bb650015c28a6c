// Variable-length integers: 7 bits per byte, least significant group first, the
// high bit set on every byte but the last. Signed ones are zig-zagged first.
//
// A number that does not fit its width is malformed: more than 5 bytes (10 for 64
// bits), or a last byte with bits beyond the width. Overlong forms that fit (80 00
// for zero) are read, never written.
#ifndef GYRE_PROTO_WIRE_VARINT_H_
#define GYRE_PROTO_WIRE_VARINT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace gyre::wire {

inline constexpr size_t kMaxVarintSize = 5;
inline constexpr size_t kMaxVarlongSize = 10;

constexpr uint32_t ZigZagEncode(int32_t value) {
  return (static_cast<uint32_t>(value) << 1) ^ static_cast<uint32_t>(value >> 31);
}
constexpr uint64_t ZigZagEncode(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int32_t ZigZagDecode(uint32_t value) {
  return static_cast<int32_t>((value >> 1) ^ (0 - (value & 1)));
}
constexpr int64_t ZigZagDecode(uint64_t value) {
  return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
}

// Bytes that the encoding of `value` takes: 1..10.
constexpr size_t UvarintSize(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}
constexpr size_t VarintSize(int32_t value) { return UvarintSize(ZigZagEncode(value)); }
constexpr size_t VarlongSize(int64_t value) { return UvarintSize(ZigZagEncode(value)); }

// Writes UvarintSize(value) bytes at `to` and returns the first byte after them.
inline char* PutUvarint(char* to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

// Reads a number from [from, end) into `value` and returns the first byte after it;
// nullptr, with `value` untouched, when it is cut short or malformed.
template <typename Unsigned>
const char* ParseUvarint(const char* from, const char* end, Unsigned* value) {
  static_assert(sizeof(Unsigned) == 4 || sizeof(Unsigned) == 8);
  constexpr int kBits = sizeof(Unsigned) * 8;
  constexpr int kLastShift = kBits / 7 * 7;
  constexpr uint8_t kLastByteMax = (1u << (kBits - kLastShift)) - 1;
  Unsigned result = 0;
  for (int shift = 0; shift < kLastShift; shift += 7) {
    if (from == end) return nullptr;
    const uint8_t byte = static_cast<uint8_t>(*from++);
    result |= static_cast<Unsigned>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return from;
    }
  }
  if (from == end) return nullptr;
  const uint8_t byte = static_cast<uint8_t>(*from++);
  if (byte > kLastByteMax) return nullptr;
  *value = result | static_cast<Unsigned>(byte) << kLastShift;
  return from;
}

static_assert(UvarintSize(0) == 1 && UvarintSize(127) == 1 && UvarintSize(128) == 2);
static_assert(UvarintSize(UINT32_MAX) == 5 && UvarintSize(UINT64_MAX) == 10);
static_assert(ZigZagEncode(-1) == 1 && ZigZagEncode(1) == 2 && ZigZagDecode(3u) == -2);

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_VARINT_H_
