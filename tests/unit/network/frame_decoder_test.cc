#include "engine/network/frame_decoder.h"

#include <string>

#include "engine/base/endian.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

std::string Prefix(int32_t size) {
  std::string bytes(4, '\0');
  StoreBigEndian(bytes.data(), size);
  return bytes;
}

const Int32LengthPrefixed kDecoder(1000);
using Kind = FrameDecoder::Kind;

TEST(Int32LengthPrefixedTest, CannotTellWithLessThanFourBytes) {
  for (size_t n = 1; n < 4; ++n) {
    EXPECT_EQ(kDecoder.Inspect(Prefix(5).substr(0, n), 0).kind, Kind::kNeedMore);
  }
}

TEST(Int32LengthPrefixedTest, ZeroAndTheLimitPass) {
  for (const int32_t size : {0, 1, 1000}) {
    const FrameDecoder::Verdict verdict = kDecoder.Inspect(Prefix(size), 0);
    EXPECT_EQ(verdict.kind, Kind::kFrame);
    EXPECT_EQ(verdict.skip_bytes, 4u);
    EXPECT_EQ(verdict.payload_bytes, size);
  }
}

TEST(Int32LengthPrefixedTest, NegativeAndBeyondTheLimitAreInvalid) {
  for (const int32_t size : {-1, INT32_MIN, 1001, INT32_MAX}) {
    EXPECT_EQ(kDecoder.Inspect(Prefix(size), 0).kind, Kind::kInvalid) << size;
  }
}

TEST(Int32LengthPrefixedTest, OtherProtocolsAreNamed) {
  const auto reason = [](absl::string_view bytes) {
    return std::string(kDecoder.Inspect(bytes, 0).reason);
  };
  EXPECT_NE(reason("GET / HTTP/1.1\r\n").find("HTTP"), std::string::npos);
  EXPECT_NE(reason(absl::string_view("\x16\x03\x01\x02\x00", 5)).find("TLS"), std::string::npos);
  EXPECT_NE(reason("SSH-2.0").find("SSH"), std::string::npos);
  EXPECT_NE(reason("\xff\xff\xff\xff").find("negative"), std::string::npos);
}

}  // namespace
}  // namespace gyre
