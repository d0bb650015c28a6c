// Sizes that more than one module must agree on. A bound that only one unit
// knows lives in that unit.
#ifndef GYRE_ENGINE_BASE_LIMITS_H_
#define GYRE_ENGINE_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace gyre {

// What two threads must not share to write independently.
inline constexpr size_t kCacheLineBytes = 64;

inline constexpr uint32_t kPageBytes = 4096;

// Frames up to this size are assembled in slab memory, larger ones land in
// memory/large_ranges.
inline constexpr uint32_t kSlabMaxBytes = 256 * 1024;

// The kernel's bound on one registered buffer of a ring (io_uring_register(2)).
inline constexpr uint64_t kRegisteredBufferMaxBytes = uint64_t{1} << 30;

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_LIMITS_H_
