// Every message in every version, from random well-formed bytes through its codec.
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/all_messages.h"
#include "tests/unit/proto/random_message.h"

namespace gyre::proto {
namespace {

constexpr uint64_t kSeed = 20260801;
constexpr int kBodiesPerVersion = 25;

template <typename Check>
void ForEveryVersion(Check check) {
  for (const MessageDescriptor* message : AllMessages()) {
    for (int16_t version = message->min_version; version <= message->max_version; ++version) {
      SCOPED_TRACE(absl::StrCat(message->name, " version ", version, " seed ", kSeed));
      check(*message, version);
    }
  }
}

TEST(RoundTripTest, EveryApiHasItsTwoMessages) {
  int requests = 0;
  int responses = 0;
  for (const MessageDescriptor* message : AllMessages()) {
    requests += message->name.find("Request") == message->name.size() - 7;
    responses += message->name.find("Response") == message->name.size() - 8;
  }
  EXPECT_EQ(requests, 91);
  EXPECT_EQ(responses, 91);
  // And 25 pairs of keys and values, 27 metadata and 4 remote log records, 14 others and
  // the 2 headers.
  EXPECT_EQ(AllMessages().size(), 2u * 91 + 2 * 25 + 27 + 4 + 14 + 2);
}

TEST(RoundTripTest, RandomBodiesComeBackAsTheSameBytes) {
  RandomMessage random(kSeed);
  ForEveryVersion([&](const MessageDescriptor& message, int16_t version) {
    for (int i = 0; i < kBodiesPerVersion; ++i) {
      const std::string bytes = random.Encode(message, version);
      const RoundTripResult result = message.round_trip(bytes, version);
      ASSERT_TRUE(result.decoded) << wire::ReadErrorName(result.error) << ": "
                                  << absl::BytesToHexString(bytes);
      ASSERT_EQ(result.consumed, bytes.size()) << absl::BytesToHexString(bytes);
      ASSERT_TRUE(result.size_exact) << absl::BytesToHexString(bytes);
      ASSERT_EQ(absl::BytesToHexString(result.encoded), absl::BytesToHexString(bytes));
      ASSERT_TRUE(result.equal) << absl::BytesToHexString(bytes);
      ASSERT_TRUE(result.stable) << absl::BytesToHexString(bytes);
    }
  });
}

TEST(RoundTripTest, EveryTruncationIsRefused) {
  RandomMessage random(kSeed + 1);
  ForEveryVersion([&](const MessageDescriptor& message, int16_t version) {
    const std::string bytes = random.Encode(message, version);
    for (size_t size = 0; size < bytes.size(); ++size) {
      // A copy of just these bytes, so that a sanitizer sees every read past them.
      const std::string cut = bytes.substr(0, size);
      ASSERT_FALSE(message.round_trip(cut, version).decoded)
          << size << " of " << absl::BytesToHexString(bytes);
    }
  });
}

TEST(RoundTripTest, TrailingBytesAreLeftUnread) {
  RandomMessage random(kSeed + 2);
  ForEveryVersion([&](const MessageDescriptor& message, int16_t version) {
    const std::string bytes = random.Encode(message, version);
    const RoundTripResult result = message.round_trip(bytes + "more", version);
    ASSERT_TRUE(result.decoded);
    ASSERT_EQ(result.consumed, bytes.size());
  });
}

}  // namespace
}  // namespace gyre::proto
