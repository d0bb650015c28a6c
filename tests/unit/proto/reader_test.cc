#include "proto/wire/reader.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/metadata.h"
#include "proto/wire/array.h"
#include "tests/unit/proto/hex.h"

namespace gyre::wire {
namespace {

using proto::FromHex;

constexpr bool kClassic = false;
constexpr bool kCompact = true;

// A reader that owns its bytes.
struct Given {
  explicit Given(absl::string_view hex) : bytes(FromHex(hex)), reader(bytes) {}
  std::string bytes;
  Reader reader;
};

TEST(ReaderTest, IntegersAreBigEndian) {
  Given in("01 ff 0102 ffff 01020304 ffffffff 0102030405060708 3ff8000000000000");
  EXPECT_TRUE(in.reader.ReadBool());
  EXPECT_EQ(in.reader.ReadInt8(), -1);
  EXPECT_EQ(in.reader.ReadInt16(), 0x0102);
  EXPECT_EQ(in.reader.ReadUint16(), 0xffff);
  EXPECT_EQ(in.reader.ReadInt32(), 0x01020304);
  EXPECT_EQ(in.reader.ReadUint32(), 0xffffffffu);
  EXPECT_EQ(in.reader.ReadInt64(), 0x0102030405060708);
  EXPECT_EQ(in.reader.ReadFloat64(), 1.5);
  EXPECT_TRUE(in.reader.ok());
  EXPECT_EQ(in.reader.remaining(), 0u);
}

TEST(ReaderTest, AnyNonZeroByteIsTrue) { EXPECT_TRUE(Given("02").reader.ReadBool()); }

TEST(ReaderTest, UuidHasItsHighHalfFirst) {
  Given in("00112233445566778899aabbccddeeff");
  EXPECT_EQ(in.reader.ReadUuid(), (Uuid{0x0011223344556677, 0x8899aabbccddeeff}));
}

TEST(ReaderTest, FirstErrorSticksAndNothingIsReadAfterIt) {
  Given in("00 01 02");
  EXPECT_EQ(in.reader.ReadInt32(), 0);
  EXPECT_EQ(in.reader.error(), ReadError::kTruncated);
  EXPECT_EQ(in.reader.remaining(), 0u);
  EXPECT_EQ(in.reader.ReadInt8(), 0);
  EXPECT_EQ(in.reader.ReadString(kCompact), "");
  EXPECT_TRUE(in.reader.ReadUuid().is_zero());
  in.reader.Fail(ReadError::kBadTag);
  EXPECT_EQ(in.reader.error(), ReadError::kTruncated);
}

TEST(ReaderTest, StringsInBothEncodings) {
  Given in("0003 616263 04 616263 0000 01");
  EXPECT_EQ(in.reader.ReadString(kClassic), "abc");
  EXPECT_EQ(in.reader.ReadString(kCompact), "abc");
  EXPECT_EQ(in.reader.ReadString(kClassic), "");
  EXPECT_EQ(in.reader.ReadString(kCompact), "");
  EXPECT_TRUE(in.reader.ok());
}

TEST(ReaderTest, ViewsPointIntoTheBytes) {
  Given in("04 616263");
  EXPECT_EQ(in.reader.ReadString(kCompact).data(), in.bytes.data() + 1);
}

TEST(ReaderTest, NullIsNotEmpty) {
  Given in("ffff 00 0000 01 ffffffff 00 00000000 01");
  EXPECT_EQ(in.reader.ReadNullableString(kClassic), std::nullopt);
  EXPECT_EQ(in.reader.ReadNullableString(kCompact), std::nullopt);
  EXPECT_EQ(in.reader.ReadNullableString(kClassic), "");
  EXPECT_EQ(in.reader.ReadNullableString(kCompact), "");
  EXPECT_EQ(in.reader.ReadNullableBytes(kClassic), std::nullopt);
  EXPECT_EQ(in.reader.ReadNullableBytes(kCompact), std::nullopt);
  EXPECT_EQ(in.reader.ReadNullableBytes(kClassic), "");
  EXPECT_EQ(in.reader.ReadNullableBytes(kCompact), "");
  EXPECT_TRUE(in.reader.ok());
}

TEST(ReaderTest, NullWhereTheVersionHasNoneIsRefused) {
  for (const char* hex : {"ffff", "00"}) {
    Given in(hex);
    in.reader.ReadString(in.bytes.size() == 1);
    EXPECT_EQ(in.reader.error(), ReadError::kUnexpectedNull) << hex;
  }
  Given in("00");
  EXPECT_EQ(in.reader.ReadNullableString(kCompact, false), std::nullopt);
  EXPECT_EQ(in.reader.error(), ReadError::kUnexpectedNull);
  Given records("ffffffff");
  EXPECT_TRUE(records.reader.ReadRecords(kClassic, false).is_null());
  EXPECT_EQ(records.reader.error(), ReadError::kUnexpectedNull);
}

TEST(ReaderTest, NegativeLengthBelowNullIsRefused) {
  Given text("fffe");
  text.reader.ReadNullableString(kClassic);
  EXPECT_EQ(text.reader.error(), ReadError::kBadLength);
  Given bytes("80000000");
  bytes.reader.ReadNullableBytes(kClassic);
  EXPECT_EQ(bytes.reader.error(), ReadError::kBadLength);
}

TEST(ReaderTest, CompactStringOfMoreThan32767BytesIsRefused) {
  const std::string longest = FromHex("808002") + std::string(32767, 'x');
  Reader reader(longest);
  EXPECT_EQ(reader.ReadString(kCompact).size(), 32767u);
  const std::string longer = FromHex("818002") + std::string(32768, 'x');
  Reader refused(longer);
  EXPECT_EQ(refused.ReadString(kCompact), "");
  EXPECT_EQ(refused.error(), ReadError::kBadLength);
  // Bytes have no such limit.
  Reader bytes(longer);
  EXPECT_EQ(bytes.ReadBytes(kCompact).size(), 32768u);
}

TEST(ReaderTest, StringThatPassesTheEndIsRefused) {
  Given in("05 616263");
  EXPECT_EQ(in.reader.ReadString(kCompact), "");
  EXPECT_EQ(in.reader.error(), ReadError::kTruncated);
}

TEST(ReaderTest, MalformedVarintIsToldFromACutOne) {
  Given endless("ffffffffff");
  EXPECT_EQ(endless.reader.ReadUvarint(), 0u);
  EXPECT_EQ(endless.reader.error(), ReadError::kBadVarint);
  Given cut("ffff");
  EXPECT_EQ(cut.reader.ReadUvarint(), 0u);
  EXPECT_EQ(cut.reader.error(), ReadError::kTruncated);
}

TEST(ReaderTest, CountIsAcceptedOnlyIfTheBytesForItAreThere) {
  Given exact("00000002 0000000000000000");
  EXPECT_EQ(exact.reader.ReadCount(kClassic, 4, 4), 2u);
  EXPECT_TRUE(exact.reader.ok());
  Given bomb("00000003 0000000000000000");
  EXPECT_EQ(bomb.reader.ReadCount(kClassic, 4, 4), 0u);
  EXPECT_EQ(bomb.reader.error(), ReadError::kTruncated);
}

TEST(ReaderTest, ArrayBombAllocatesNothing) {
  for (bool flexible : {kClassic, kCompact}) {
    Given in(flexible ? "ffffffff0f 0000" : "7fffffff 0000");
    std::vector<int64_t> numbers;
    EXPECT_FALSE(DecodeArray(in.reader, numbers, flexible));
    EXPECT_EQ(numbers.capacity(), 0u);
  }
  Given structs("7fffffff 0000");
  proto::MetadataRequest request;
  EXPECT_FALSE(request.Decode(structs.reader, 0));
  EXPECT_EQ(request.topics.value_or(std::vector<proto::MetadataRequest::Topic>()).capacity(), 0u);
}

TEST(ReaderTest, AllocationLimitCountsAllArrays) {
  Given in("00000002 0000000000000000 00000002 0000000000000000");
  in.reader.set_allocation_limit(12);
  std::vector<int32_t> numbers;
  EXPECT_TRUE(DecodeArray(in.reader, numbers, kClassic));
  EXPECT_FALSE(DecodeArray(in.reader, numbers, kClassic));
  EXPECT_EQ(in.reader.error(), ReadError::kTooLarge);
}

TEST(ReaderTest, NullArrays) {
  Given in("ffffffff 00 00000000 01");
  std::optional<std::vector<int32_t>> numbers;
  for (bool flexible : {kClassic, kCompact}) {
    numbers.emplace();
    EXPECT_TRUE(DecodeArray(in.reader, numbers, flexible, true));
    EXPECT_EQ(numbers, std::nullopt);
  }
  for (bool flexible : {kClassic, kCompact}) {
    numbers.reset();
    EXPECT_TRUE(DecodeArray(in.reader, numbers, flexible, true));
    EXPECT_EQ(numbers, std::vector<int32_t>());
  }
  Given refused("00");
  EXPECT_FALSE(DecodeArray(refused.reader, numbers, kCompact, false));
  EXPECT_EQ(refused.reader.error(), ReadError::kUnexpectedNull);
}

TEST(ReaderTest, PresenceOfANullableStruct) {
  EXPECT_TRUE(Given("01").reader.ReadPresence(false));
  EXPECT_FALSE(Given("ff").reader.ReadPresence(false));
  EXPECT_TRUE(Given("01").reader.ReadPresence(true));
  EXPECT_FALSE(Given("00").reader.ReadPresence(true));
  Given empty("");
  EXPECT_FALSE(empty.reader.ReadPresence(false));
  EXPECT_FALSE(empty.reader.ok());
}

TEST(TagReaderTest, KnownAndUnknownFieldsInOneBlock) {
  Given in("02 00 02 0102 05 01 ff 77");
  TagReader tags(in.reader);
  ASSERT_TRUE(tags.Next());
  EXPECT_EQ(tags.tag(), 0u);
  EXPECT_EQ(in.reader.remaining(), 2u);
  EXPECT_EQ(in.reader.ReadInt16(), 0x0102);
  ASSERT_TRUE(tags.Next());
  EXPECT_EQ(tags.tag(), 5u);
  EXPECT_EQ(tags.TakeValue(), "\xff");
  EXPECT_FALSE(tags.Next());
  EXPECT_TRUE(in.reader.ok());
  EXPECT_EQ(in.reader.ReadInt8(), 0x77);
}

ReadError ErrorOfBlock(absl::string_view hex) {
  Given in(hex);
  TaggedFields fields;
  in.reader.ReadTaggedFields(fields);
  EXPECT_EQ(in.reader.ok() ? 0u : in.reader.remaining(), 0u);
  return in.reader.error();
}

TEST(TagReaderTest, TagsMustAscendWithoutDuplicates) {
  EXPECT_EQ(ErrorOfBlock("02 01 00 02 00"), ReadError::kNone);
  EXPECT_EQ(ErrorOfBlock("02 01 00 01 00"), ReadError::kBadTag);
  EXPECT_EQ(ErrorOfBlock("02 02 00 01 00"), ReadError::kBadTag);
  EXPECT_EQ(ErrorOfBlock("02 00 00 00 00"), ReadError::kBadTag);
}

TEST(TagReaderTest, SizeMustLieWithinTheBytes) {
  EXPECT_EQ(ErrorOfBlock("01 00 02 aa"), ReadError::kTruncated);
  EXPECT_EQ(ErrorOfBlock("01 00"), ReadError::kTruncated);
  EXPECT_EQ(ErrorOfBlock(""), ReadError::kTruncated);
}

TEST(TagReaderTest, CountOfFieldsIsNotTrusted) {
  EXPECT_EQ(ErrorOfBlock("ffffffff0f 00 00"), ReadError::kTruncated);
}

TEST(TagReaderTest, ValueMustFillItsSize) {
  // A response to FindCoordinator would do as well; a field of two bytes in three.
  Given in("01 00 03 0102ff 77");
  TagReader tags(in.reader);
  ASSERT_TRUE(tags.Next());
  EXPECT_EQ(in.reader.ReadInt16(), 0x0102);
  EXPECT_FALSE(tags.Next());
  EXPECT_EQ(in.reader.error(), ReadError::kBadTag);
  EXPECT_EQ(in.reader.ReadInt8(), 0);
}

TEST(TagReaderTest, ValueCannotBeReadPastItsSize) {
  Given in("01 00 01 01 0203");
  TagReader tags(in.reader);
  ASSERT_TRUE(tags.Next());
  EXPECT_EQ(in.reader.ReadInt16(), 0);
  EXPECT_EQ(in.reader.error(), ReadError::kTruncated);
  EXPECT_FALSE(tags.Next());
}

}  // namespace
}  // namespace gyre::wire
