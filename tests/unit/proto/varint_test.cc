#include "proto/wire/varint.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/proto/hex.h"

namespace gyre::wire {
namespace {

using proto::FromHex;
using proto::ToHex;

std::string Put(uint64_t value) {
  char buffer[kMaxVarlongSize];
  return std::string(buffer, PutUvarint(buffer, value));
}

template <typename Unsigned>
bool Parses(const std::string& bytes, Unsigned* value) {
  return ParseUvarint(bytes.data(), bytes.data() + bytes.size(), value) ==
         bytes.data() + bytes.size();
}

TEST(VarintTest, UnsignedExamples) {
  EXPECT_EQ(ToHex(Put(0)), "00");
  EXPECT_EQ(ToHex(Put(127)), "7f");
  EXPECT_EQ(ToHex(Put(128)), "8001");
  EXPECT_EQ(ToHex(Put(300)), "ac02");
  EXPECT_EQ(ToHex(Put(INT32_MAX)), "ffffffff07");
}

TEST(VarintTest, SignedExamplesAreZigZag) {
  EXPECT_EQ(ToHex(Put(ZigZagEncode(-1))), "01");
  EXPECT_EQ(ToHex(Put(ZigZagEncode(63))), "7e");
  EXPECT_EQ(ToHex(Put(ZigZagEncode(64))), "8001");
  EXPECT_EQ(ToHex(Put(ZigZagEncode(-64))), "7f");
  EXPECT_EQ(ToHex(Put(ZigZagEncode(-65))), "8101");
}

TEST(VarintTest, ZigZagInvertsAtTheEdges) {
  for (int32_t value : {0, -1, 1, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(ZigZagDecode(ZigZagEncode(value)), value);
  }
  for (int64_t value : {INT64_MIN, INT64_MAX, int64_t{-5}}) {
    EXPECT_EQ(ZigZagDecode(ZigZagEncode(value)), value);
  }
}

TEST(VarintTest, SizeIsWhatIsWrittenAtEveryWidth) {
  for (int bits = 0; bits < 64; ++bits) {
    for (uint64_t value : {(uint64_t{1} << bits) - 1, uint64_t{1} << bits}) {
      EXPECT_EQ(Put(value).size(), UvarintSize(value)) << value;
      uint64_t back = 0;
      EXPECT_TRUE(Parses(Put(value), &back));
      EXPECT_EQ(back, value);
    }
  }
}

TEST(VarintTest, LargestNumbersOfEachWidthAreRead) {
  uint32_t narrow = 0;
  EXPECT_TRUE(Parses(FromHex("ffffffff0f"), &narrow));
  EXPECT_EQ(narrow, UINT32_MAX);
  uint64_t wide = 0;
  EXPECT_TRUE(Parses(FromHex("ffffffffffffffffff01"), &wide));
  EXPECT_EQ(wide, UINT64_MAX);
}

TEST(VarintTest, LastByteMustEndTheNumberWithinItsWidth) {
  uint32_t narrow = 77;
  EXPECT_FALSE(Parses(FromHex("ffffffff80"), &narrow));    // a fifth byte that goes on
  EXPECT_FALSE(Parses(FromHex("ffffffff10"), &narrow));    // bit 32
  EXPECT_FALSE(Parses(FromHex("808080808000"), &narrow));  // six bytes
  EXPECT_EQ(narrow, 77u);
  uint64_t wide = 77;
  EXPECT_FALSE(Parses(FromHex("ffffffffffffffffff80"), &wide));
  EXPECT_FALSE(Parses(FromHex("ffffffffffffffffff02"), &wide));
  EXPECT_EQ(wide, 77u);
}

TEST(VarintTest, OverlongFormThatFitsIsRead) {
  uint32_t value = 77;
  EXPECT_TRUE(Parses(FromHex("8000"), &value));
  EXPECT_EQ(value, 0u);
}

TEST(VarintTest, CutNumberIsRefused) {
  uint32_t value = 77;
  EXPECT_FALSE(Parses(FromHex(""), &value));
  EXPECT_FALSE(Parses(FromHex("ff"), &value));
  EXPECT_FALSE(Parses(FromHex("ffffffff"), &value));
}

}  // namespace
}  // namespace gyre::wire
