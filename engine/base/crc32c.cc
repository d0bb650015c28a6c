#include "engine/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gyre {
namespace {

// The polynomial with its bits reversed, as all arithmetic here is.
constexpr uint32_t kPolynomial = 0x82f63b78;

// kTables[k][b]: the effect of byte b followed by k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

uint32_t RawPortable(uint32_t crc, const unsigned char* from, size_t size_bytes) {
  static_assert(std::endian::native == std::endian::little);
  for (; size_bytes >= 8; from += 8, size_bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size_bytes > 0; ++from, --size_bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ *from) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)

// x^exponent modulo the polynomial, bit-reversed.
constexpr uint32_t PowerOfX(uint64_t exponent) {
  uint32_t value = 0x80000000;  // x^0
  for (uint64_t i = 0; i < exponent; ++i) {
    value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
  }
  return value;
}

// Carry-less multiplication of a reversed crc by x^(8n - 33), reduced by a
// crc32 step over its 64 bits, is the crc after n zero bytes: the product of
// two reversed 32-bit values is short by one bit, and the step adds 32.
constexpr uint32_t ShiftConstant(uint64_t zero_bytes) { return PowerOfX(8 * zero_bytes - 33); }

// Bytes of each of the three streams; a long block amortises the join, a short
// one serves what is left.
constexpr size_t kLongBytes = 1024;
constexpr size_t kShortBytes = 128;

template <size_t kStreamBytes>
__attribute__((target("sse4.2,pclmul"))) inline const unsigned char* FoldBlocks(
    uint64_t* crc, const unsigned char* from, size_t* size_bytes) {
  constexpr uint32_t kShiftOne = ShiftConstant(kStreamBytes);
  constexpr uint32_t kShiftTwo = ShiftConstant(2 * kStreamBytes);
  uint64_t first = *crc;
  while (*size_bytes >= 3 * kStreamBytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kStreamBytes; i += 8) {
      uint64_t words[3];
      std::memcpy(&words[0], from + i, 8);
      std::memcpy(&words[1], from + kStreamBytes + i, 8);
      std::memcpy(&words[2], from + 2 * kStreamBytes + i, 8);
      first = _mm_crc32_u64(first, words[0]);
      second = _mm_crc32_u64(second, words[1]);
      third = _mm_crc32_u64(third, words[2]);
    }
    const __m128i shifted_first = _mm_clmulepi64_si128(
        _mm_cvtsi64_si128(static_cast<int64_t>(first)), _mm_cvtsi64_si128(int64_t{kShiftTwo}), 0);
    const __m128i shifted_second = _mm_clmulepi64_si128(
        _mm_cvtsi64_si128(static_cast<int64_t>(second)), _mm_cvtsi64_si128(int64_t{kShiftOne}), 0);
    const int64_t joined = _mm_cvtsi128_si64(_mm_xor_si128(shifted_first, shifted_second));
    first = _mm_crc32_u64(0, static_cast<uint64_t>(joined)) ^ third;
    from += 3 * kStreamBytes;
    *size_bytes -= 3 * kStreamBytes;
  }
  *crc = first;
  return from;
}

__attribute__((target("sse4.2,pclmul"))) uint32_t RawAccelerated(uint32_t start,
                                                                 const unsigned char* from,
                                                                 size_t size_bytes) {
  uint64_t crc = start;
  from = FoldBlocks<kLongBytes>(&crc, from, &size_bytes);
  from = FoldBlocks<kShortBytes>(&crc, from, &size_bytes);
  for (; size_bytes >= 8; from += 8, size_bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  uint32_t tail = static_cast<uint32_t>(crc);
  for (; size_bytes > 0; ++from, --size_bytes) tail = _mm_crc32_u8(tail, *from);
  return tail;
}

bool DetectAcceleration() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#else

uint32_t RawAccelerated(uint32_t crc, const unsigned char* from, size_t size_bytes) {
  return RawPortable(crc, from, size_bytes);
}
bool DetectAcceleration() { return false; }

#endif

// False until initialised: a checksum asked for by another initialiser takes
// the table, which gives the same value.
const bool kAccelerated = DetectAcceleration();

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, const void* from, size_t size_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  return ~(kAccelerated ? RawAccelerated(~crc, bytes, size_bytes)
                        : RawPortable(~crc, bytes, size_bytes));
}

uint32_t ExtendCrc32cPortable(uint32_t crc, const void* from, size_t size_bytes) {
  return ~RawPortable(~crc, static_cast<const unsigned char*>(from), size_bytes);
}

bool Crc32cIsAccelerated() { return kAccelerated; }

}  // namespace gyre
