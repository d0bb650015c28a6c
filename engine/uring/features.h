// What this kernel's io_uring can do, found out once at start: setup flags by
// trying, opcodes by probe, and the semantics that distributions backport by
// halves by a preflight on a loopback connection. Never by version number.
//
// Each optional feature can be hidden by name, so that a test suite runs as on
// the oldest kernel: with `all`, what is left is the 5.19 rung
// (COOP_TASKRUN | TASKRUN_FLAG, one-shot receives, eventfd wake-up).
//
// Threads: a value; probing uses the calling thread only.
#ifndef GYRE_ENGINE_URING_FEATURES_H_
#define GYRE_ENGINE_URING_FEATURES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gyre::uring {

// The optional ones. Multishot accept, provided-buffer rings and the 5.19
// setup flags are required.
enum class Feature : uint8_t {
  kSingleIssuer,        // 6.0
  kDeferTaskrun,        // 6.1, needs single_issuer
  kMultishotRecv,       // 6.0
  kSendZeroCopy,        // 6.0
  kSendZeroCopyReport,  // 6.2, needs send_zc; and gathered zero copy (6.1)
  kRegisteredBuffers,
  kMsgRingWake,  // 6.13; else an eventfd
  kMinWait,      // 6.12
  kCachestat,    // 6.5; else mincore
};
inline constexpr int kFeatureCount = 9;

// The word for it in --uring_disable and in logs.
absl::string_view FeatureName(Feature feature);

class FeatureSet {
 public:
  constexpr FeatureSet() = default;
  static constexpr FeatureSet All() { return FeatureSet((1u << kFeatureCount) - 1); }

  constexpr bool Has(Feature feature) const { return (bits_ & Bit(feature)) != 0; }
  constexpr void Add(Feature feature) { bits_ |= Bit(feature); }
  constexpr void Remove(Feature feature) { bits_ &= ~Bit(feature); }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr bool operator==(FeatureSet, FeatureSet) = default;

 private:
  explicit constexpr FeatureSet(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t Bit(Feature feature) { return 1u << static_cast<int>(feature); }
  uint32_t bits_ = 0;
};

struct Features {
  FeatureSet available;
  FeatureSet hidden;  // as asked for, whether or not the kernel has them
  std::string kernel_release;

  bool Has(Feature feature) const { return available.Has(feature); }
  // The line to print at start: kernel, rung of setup flags, features found,
  // missing and hidden.
  std::string Describe() const;
};

// The io_uring_setup flags of the rung that `available` stands for; the ring
// adds its own (CQ size, start disabled).
uint32_t SetupFlags(FeatureSet available);

// A comma-separated list of feature names, or `all`; empty hides nothing. An
// unknown name is INVALID_ARGUMENT and the message lists the valid ones.
absl::StatusOr<FeatureSet> ParseDisabled(absl::string_view list);

// Fails, with one actionable line (setup_error.h), when io_uring is absent,
// forbidden or older than 5.19. A hidden feature is not tried.
absl::StatusOr<Features> ProbeFeatures(FeatureSet hidden);

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_FEATURES_H_
