#include "engine/base/crc32c.h"

#include <string>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

std::string RandomBytes(size_t size_bytes, uint64_t seed) {
  std::string bytes(size_bytes, '\0');
  Random(seed).Fill(bytes.data(), bytes.size());
  return bytes;
}

// One bit at a time, straight from the definition.
uint32_t BitwiseCrc32c(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32cTest, GivesTheStandardTestVectors) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending(32, '\0');
  for (int i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(std::string(ascending.rbegin(), ascending.rend())), 0x113fdb5cu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(Crc32cTest, OfNothingIsZero) { EXPECT_EQ(Crc32c("", 0), 0u); }

TEST(Crc32cTest, AgreesWithTheDefinitionAtEveryLengthAroundTheBlockSizes) {
  const std::string bytes = RandomBytes(8192, 1);
  std::vector<size_t> lengths;
  for (size_t n = 0; n < 420; ++n) lengths.push_back(n);
  for (size_t n :
       {767u, 768u, 769u, 3071u, 3072u, 3073u, 3455u, 3456u, 6143u, 6144u, 6152u, 8192u}) {
    lengths.push_back(n);
  }
  for (const size_t length : lengths) {
    const std::string part = bytes.substr(0, length);
    const uint32_t expected = BitwiseCrc32c(part);
    ASSERT_EQ(Crc32c(part), expected) << length;
    ASSERT_EQ(ExtendCrc32cPortable(0, part.data(), part.size()), expected) << length;
  }
}

TEST(Crc32cTest, DoesNotDependOnAlignment) {
  const std::string bytes = RandomBytes(5000, 2);
  const uint32_t expected = Crc32c(bytes);
  for (int shift = 1; shift < 16; ++shift) {
    std::string shifted = std::string(shift, 'x') + bytes;
    ASSERT_EQ(Crc32c(shifted.data() + shift, bytes.size()), expected) << shift;
  }
}

TEST(Crc32cTest, ExtendingPieceByPieceEqualsTheWhole) {
  const std::string bytes = RandomBytes(10'000, 3);
  const uint32_t expected = Crc32c(bytes);
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    uint32_t crc = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t taken = std::min<size_t>(bytes.size() - at, random.Below(4000));
      crc = ExtendCrc32c(crc, bytes.data() + at, taken);
      at += taken;
    }
    ASSERT_EQ(crc, expected);
  }
}

TEST(Crc32cTest, SeesEverySingleFlippedBit) {
  std::string bytes = RandomBytes(400, 5);
  const uint32_t expected = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    ASSERT_NE(Crc32c(bytes), expected) << bit;
    bytes[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace gyre
