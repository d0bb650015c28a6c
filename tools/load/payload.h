// What a record or an echo frame holds: 40 bytes that identify and time it, then filler.
// All integers are big-endian.
//
//   offset bytes field
//        0     4 "GyLd"
//        4     4 CRC-32C of everything after it
//        8     4 run: a number drawn for each run
//       12     4 stream
//       16     8 number within the stream
//       24     8 intended start, ns of CLOCK_MONOTONIC
//       32     8 when it was made, ns of CLOCK_MONOTONIC
//       40       filler
#ifndef GYRE_TOOLS_LOAD_PAYLOAD_H_
#define GYRE_TOOLS_LOAD_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/random.h"

namespace gyre::load {

struct PayloadHeader {
  uint32_t run = 0;
  uint32_t stream = 0;
  int64_t number = 0;
  int64_t intended_ns = 0;
  int64_t made_ns = 0;
};

inline constexpr size_t kPayloadHeaderBytes = 40;

enum class PayloadState : uint8_t {
  kOurs,       // the checksum is right
  kCorrupted,  // it looks like ours, and is not what was written
  kForeign,    // not written by a gyre_load
};

// Overwrites the first bytes of `payload` (at least kPayloadHeaderBytes).
void SealPayload(const PayloadHeader& header, std::string* payload);
PayloadState OpenPayload(absl::string_view payload, PayloadHeader* header);

// How large records are: "N", "uniform:MIN:MAX" or "lognormal:MEDIAN:SIGMA:MAX".
class SizeDistribution {
 public:
  explicit SizeDistribution(int64_t fixed_bytes = 1024) : min_(fixed_bytes), max_(fixed_bytes) {}
  static absl::StatusOr<SizeDistribution> Parse(absl::string_view text);

  int64_t Draw(Random& random) const;
  int64_t min_bytes() const { return min_; }
  int64_t max_bytes() const { return max_; }
  double mean_bytes() const;

 private:
  enum class Kind : uint8_t { kFixed, kUniform, kLognormal };
  Kind kind_ = Kind::kFixed;
  int64_t min_;
  int64_t max_;
  double median_ = 0;
  double sigma_ = 0;
};

// Makes payloads: filler that does not compress, or the lines of a file in turn.
//
// Threads: one at a time.
class PayloadSource {
 public:
  PayloadSource(const SizeDistribution& sizes, const std::vector<std::string>* lines,
                uint64_t seed);
  // The next payload, sealed; `payload` keeps its capacity.
  void Make(const PayloadHeader& header, std::string* payload);

 private:
  const SizeDistribution sizes_;
  const std::vector<std::string>* const lines_;  // null: random filler
  Random random_;
  std::string filler_;
  size_t next_line_ = 0;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_PAYLOAD_H_
