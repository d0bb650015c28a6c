// CRC-32C (Castagnoli; RFC 3720 appendix B.4), as record batches carry it.
// Uses the processor's crc32 instruction on three interleaved streams, joined
// by a carry-less multiplication; a table where the processor has neither.
//
// Threads: any.
#ifndef GYRE_ENGINE_BASE_CRC32C_H_
#define GYRE_ENGINE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace gyre {

// The checksum of the bytes that gave `crc` followed by [from, from + size).
// The checksum of no bytes is 0.
uint32_t ExtendCrc32c(uint32_t crc, const void* from, size_t size_bytes);

inline uint32_t Crc32c(const void* from, size_t size_bytes) {
  return ExtendCrc32c(0, from, size_bytes);
}
inline uint32_t Crc32c(absl::string_view bytes) {
  return ExtendCrc32c(0, bytes.data(), bytes.size());
}

// The portable version, for the tests and benchmarks that compare the two.
uint32_t ExtendCrc32cPortable(uint32_t crc, const void* from, size_t size_bytes);
// Whether ExtendCrc32c uses the instruction on this processor.
bool Crc32cIsAccelerated();

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_CRC32C_H_
