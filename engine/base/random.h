// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
// generators"), seeded through splitmix64. Not for secrets. It is passed in,
// so that a run can be repeated from its seed.
//
// Threads: one at a time.
#ifndef GYRE_ENGINE_BASE_RANDOM_H_
#define GYRE_ENGINE_BASE_RANDOM_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gyre {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
      word = mixed ^ (mixed >> 31);
    }
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound) {
    // Lemire's multiplication; its bias is at most bound / 2^64.
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }
  // Uniform in [low, high], both included.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  // True once in `n` on average; n > 0.
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  // Uniform in [0, 1).
  double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  void Fill(void* to, size_t size_bytes) {
    char* out = static_cast<char*>(to);
    while (size_bytes > 0) {
      const uint64_t word = Next();
      const size_t taken = size_bytes < sizeof(word) ? size_bytes : sizeof(word);
      std::memcpy(out, &word, taken);
      out += taken;
      size_bytes -= taken;
    }
  }

  // What <algorithm> and <random> ask of a generator.
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() { return Next(); }

 private:
  uint64_t state_[4];
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_RANDOM_H_
