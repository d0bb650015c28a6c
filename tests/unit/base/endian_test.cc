#include "engine/base/endian.h"

#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(EndianTest, LoadsMostSignificantByteFirst) {
  const unsigned char bytes[] = {0x01, 0x02, 0x03, 0x04};
  EXPECT_EQ(LoadBigEndian<int32_t>(bytes), 0x01020304);
}

TEST(EndianTest, StoresMostSignificantByteFirstAtAnyAlignment) {
  unsigned char bytes[9] = {};
  StoreBigEndian<int64_t>(bytes + 1, 0x0102030405060708);
  EXPECT_EQ(bytes[1], 1);
  EXPECT_EQ(bytes[8], 8);
  EXPECT_EQ(LoadBigEndian<int64_t>(bytes + 1), 0x0102030405060708);
}

}  // namespace
}  // namespace gyre
