#include "proto/wire/writer.h"

#include <functional>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "proto/wire/reader.h"
#include "proto/wire/tagged_fields.h"
#include "tests/unit/proto/hex.h"

namespace gyre::wire {
namespace {

using proto::FromHex;
using proto::ToHex;

constexpr bool kClassic = false;
constexpr bool kCompact = true;

// What `write` writes, in hex.
std::string Written(const std::function<void(Writer&)>& write) {
  std::string buffer(100000, '\0');
  Writer writer(buffer.data(), buffer.size());
  write(writer);
  return ToHex(writer.written());
}

TEST(WriterTest, IntegersAreBigEndian) {
  EXPECT_EQ(Written([](Writer& w) {
              w.WriteBool(true);
              w.WriteInt8(-1);
              w.WriteInt16(0x0102);
              w.WriteUint16(0xfffe);
              w.WriteInt32(-2);
              w.WriteUint32(0x01020304);
              w.WriteInt64(0x0102030405060708);
              w.WriteFloat64(1.5);
              w.WriteErrorCode(ErrorCode::kNotController);
            }),
            "01ff0102fffefffffffe0102030401020304050607083ff80000000000000029");
}

TEST(WriterTest, StringsAndBytesInBothEncodings) {
  EXPECT_EQ(Written([](Writer& w) { w.WriteString("ab", kClassic); }), "00026162");
  EXPECT_EQ(Written([](Writer& w) { w.WriteString("ab", kCompact); }), "036162");
  EXPECT_EQ(Written([](Writer& w) { w.WriteBytes("ab", kClassic); }), "000000026162");
  EXPECT_EQ(Written([](Writer& w) { w.WriteBytes("ab", kCompact); }), "036162");
}

TEST(WriterTest, NullsInBothEncodings) {
  EXPECT_EQ(Written([](Writer& w) { w.WriteNullableString(std::nullopt, kClassic); }), "ffff");
  EXPECT_EQ(Written([](Writer& w) { w.WriteNullableString(std::nullopt, kCompact); }), "00");
  EXPECT_EQ(Written([](Writer& w) { w.WriteNullableBytes(std::nullopt, kClassic); }), "ffffffff");
  EXPECT_EQ(Written([](Writer& w) { w.WriteNullableBytes(std::nullopt, kCompact); }), "00");
}

TEST(WriterTest, NullIsEmptyWhereTheVersionHasNone) {
  EXPECT_EQ(Written([](Writer& w) { w.WriteNullableString(std::nullopt, kClassic, false); }),
            "0000");
  EXPECT_EQ(Written([](Writer& w) { w.WriteRecords(RecordsView::Null(), kClassic, false); }),
            "00000000");
}

TEST(WriterTest, StringAboveTheLimitIsCutAtACharacter) {
  EXPECT_EQ(ClampString(std::string(32767, 'x')).size(), 32767u);
  EXPECT_EQ(ClampString(std::string(40000, 'x')).size(), 32767u);
  // A character of three bytes that would end one byte too far.
  const std::string text = std::string(32765, 'x') + "\xe2\x82\xac";
  EXPECT_EQ(ClampString(text).size(), 32765u);
  EXPECT_EQ(StringSize(absl::string_view(text), kClassic), 2u + 32765);
  EXPECT_EQ(Written([&](Writer& w) { w.WriteString(text, kClassic); }).size(), 2 * (2u + 32765));
}

TEST(WriterTest, ExternalRecordsLeaveAHole) {
  char buffer[64];
  Writer writer(buffer, sizeof(buffer));
  writer.WriteInt8(1);
  writer.WriteRecords(RecordsView::External(300), kClassic, true);
  writer.WriteInt8(2);
  writer.WriteRecords(RecordsView("xy"), kClassic, true);
  writer.WriteRecords(RecordsView::External(0), kCompact, true);
  writer.WriteRecords(RecordsView::External(200), kCompact, true);
  EXPECT_EQ(ToHex(writer.written()),
            "010000012c020000000278"
            "7901c901");
  ASSERT_EQ(writer.holes().size(), 2u);  // nothing has to be put where the length is zero
  EXPECT_EQ(writer.holes()[0], (Writer::Hole{.position = 5, .size = 300}));
  EXPECT_EQ(writer.holes()[1], (Writer::Hole{.position = 15, .size = 200}));
  EXPECT_EQ(writer.external_size(), 500u);
}

TEST(WriterTest, RecordsSizeLeavesOutExternalBytes) {
  EXPECT_EQ(RecordsSize(RecordsView::External(300), kClassic), 4u);
  EXPECT_EQ(RecordsSize(RecordsView::External(300), kCompact), 2u);
  EXPECT_EQ(RecordsSize(RecordsView("xyz"), kClassic), 7u);
  EXPECT_EQ(RecordsSize(RecordsView::Null(), kCompact), 1u);
}

TEST(WriterTest, PatchOverwritesInPlace) {
  EXPECT_EQ(Written([](Writer& w) {
              w.WriteInt32(0);
              w.WriteInt8(9);
              w.PatchInt32(0, 7);
            }),
            "0000000709");
}

TEST(WriterDeathTest, WritingPastTheBufferStopsTheProcess) {
  char buffer[3];
  Writer writer(buffer, sizeof(buffer));
  writer.WriteInt16(1);
  EXPECT_DEATH(writer.WriteInt16(2), "pass the end of a buffer of 3");
}

TEST(TaggedFieldsTest, KnownTagsMergeWithUnknownOnes) {
  TaggedFields fields;
  fields.Add(1, "a");
  fields.Add(3, "b");
  EXPECT_EQ(fields.EncodedSize(), 6u);
  EXPECT_EQ(Written([&](Writer& w) {
              size_t next = fields.EncodeBelow(w, 0, 2);
              w.WriteTag(2, 1);
              w.WriteInt8(0);
              next = fields.EncodeBelow(w, next, UINT64_MAX);
              EXPECT_EQ(next, 2u);
            }),
            "010161020100030162");
}

}  // namespace
}  // namespace gyre::wire
