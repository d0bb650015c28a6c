#include "tools/load/payload.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gyre::load {
namespace {

TEST(PayloadTest, ComesBackAsItWasSealed) {
  PayloadSource source(SizeDistribution(100), nullptr, 1);
  std::string payload;
  source.Make({.run = 1, .stream = 2, .number = 3, .intended_ns = 4, .made_ns = 5}, &payload);
  ASSERT_EQ(payload.size(), 100u);
  PayloadHeader header;
  ASSERT_EQ(OpenPayload(payload, &header), PayloadState::kOurs);
  EXPECT_EQ(header.run, 1u);
  EXPECT_EQ(header.stream, 2u);
  EXPECT_EQ(header.number, 3);
  EXPECT_EQ(header.intended_ns, 4);
  EXPECT_EQ(header.made_ns, 5);
}

TEST(PayloadTest, EveryFlippedBitIsSeen) {
  PayloadSource source(SizeDistribution(64), nullptr, 1);
  std::string payload;
  source.Make({.number = 9}, &payload);
  for (size_t bit = 0; bit < payload.size() * 8; ++bit) {
    std::string damaged = payload;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    PayloadHeader header;
    EXPECT_NE(OpenPayload(damaged, &header), PayloadState::kOurs) << bit;
  }
  PayloadHeader header;
  EXPECT_NE(OpenPayload(payload.substr(0, 63), &header), PayloadState::kOurs);
  EXPECT_EQ(OpenPayload("short", &header), PayloadState::kForeign);
}

TEST(PayloadTest, SizesFollowTheirDistribution) {
  Random random(5);
  const SizeDistribution uniform = *SizeDistribution::Parse("uniform:100:300");
  const SizeDistribution lognormal = *SizeDistribution::Parse("lognormal:1000:0.5:5000");
  double sum = 0;
  int below = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t bytes = uniform.Draw(random);
    ASSERT_TRUE(bytes >= 100 && bytes <= 300);
    sum += static_cast<double>(bytes);
    const int64_t skewed = lognormal.Draw(random);
    ASSERT_TRUE(skewed >= 40 && skewed <= 5000);
    below += skewed < 1000 ? 1 : 0;
  }
  EXPECT_NEAR(sum / 20'000, 200, 3);
  EXPECT_NEAR(below / 20'000.0, 0.5, 0.02);
}

TEST(PayloadTest, ASizeThatIsNoneIsRefused) {
  for (const char* text : {"", "0", "-1", "abc", "uniform:5", "uniform:9:5", "uniform:0:5",
                           "lognormal:10:x:20", "lognormal:100:1:50", "99999999999"}) {
    EXPECT_FALSE(SizeDistribution::Parse(text).ok()) << text;
  }
}

TEST(PayloadTest, AReplayedFileGivesItsLinesInTurn) {
  const std::vector<std::string> lines = {"one", "two and more"};
  PayloadSource source(SizeDistribution(), &lines, 1);
  std::string payload;
  for (const char* expected : {"one", "two and more", "one"}) {
    source.Make({}, &payload);
    EXPECT_EQ(payload.substr(kPayloadHeaderBytes), expected);
    PayloadHeader header;
    EXPECT_EQ(OpenPayload(payload, &header), PayloadState::kOurs);
  }
}

}  // namespace
}  // namespace gyre::load
