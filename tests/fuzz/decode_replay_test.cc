// The decode fuzzer's body as an ordinary test: over its seeds, and over seeds with a few
// bytes changed, cut or grown.
#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "proto/all_messages.h"
#include "tests/fuzz/decode_check.h"
#include "tests/unit/proto/random_message.h"

namespace gyre::proto {
namespace {

constexpr uint64_t kSeed = 20260802;
constexpr int kMutationsPerVersion = 40;

class DecodeReplayTest : public testing::Test {
 protected:
  DecodeReplayTest() { RecordProperty("seed", static_cast<int>(kSeed)); }

  void Mutate(std::string* input) {
    for (uint64_t changes = 1 + random_() % 3; changes > 0; --changes) {
      // The first three bytes choose message and version.
      const size_t position = 3 + random_() % (input->size() - 2);
      switch (random_() % 5) {
        case 0:
          input->insert(position, 1, static_cast<char>(random_()));
          break;
        case 1:
          input->resize(position);
          break;
        case 2:
          input->insert(position, "\xff\xff\xff\xff\x0f");
          break;
        case 3:
          if (position < input->size()) (*input)[position] ^= static_cast<char>(1 << random_() % 8);
          break;
        default:
          if (position < input->size()) (*input)[position] = static_cast<char>(random_());
          break;
      }
    }
  }

  std::mt19937_64 random_{kSeed};
  RandomMessage bodies_{kSeed};
};

TEST_F(DecodeReplayTest, SeedsAreAccepted) {
  for (const MessageDescriptor* message : AllMessages()) {
    for (int16_t version = message->min_version; version <= message->max_version; ++version) {
      EXPECT_TRUE(CheckDecode(DecodeInput(*message, version, bodies_.Encode(*message, version))))
          << message->name << " version " << version << " seed " << kSeed;
    }
  }
}

TEST_F(DecodeReplayTest, DamagedSeedsAreRefusedOrSurvive) {
  int refused = 0;
  int accepted = 0;
  for (const MessageDescriptor* message : AllMessages()) {
    for (int16_t version = message->min_version; version <= message->max_version; ++version) {
      for (int i = 0; i < kMutationsPerVersion; ++i) {
        std::string input = DecodeInput(*message, version, bodies_.Encode(*message, version));
        Mutate(&input);
        ++(CheckDecode(input) ? accepted : refused);
      }
    }
  }
  // Both ways have to be taken often, or the damage is not worth its name.
  EXPECT_GT(refused, accepted / 10);
  EXPECT_GT(accepted, refused / 10);
}

TEST_F(DecodeReplayTest, ShortInputsAreRefused) {
  EXPECT_FALSE(CheckDecode(""));
  EXPECT_FALSE(CheckDecode("\1\2"));
}

}  // namespace
}  // namespace gyre::proto
