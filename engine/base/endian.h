// Big-endian loads and stores on unaligned bytes, as every Kafka integer is.
#ifndef GYRE_ENGINE_BASE_ENDIAN_H_
#define GYRE_ENGINE_BASE_ENDIAN_H_

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gyre {

template <std::integral T>
constexpr T ByteSwap(T value) {
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  } else {
    return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
  }
}

// Reads sizeof(T) bytes at `from`, which need not be aligned.
template <std::integral T>
T LoadBigEndian(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return std::endian::native == std::endian::little ? ByteSwap(value) : value;
}

// Writes sizeof(T) bytes at `to`, which need not be aligned.
template <std::integral T>
void StoreBigEndian(void* to, T value) {
  if constexpr (std::endian::native == std::endian::little) value = ByteSwap(value);
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_ENDIAN_H_
