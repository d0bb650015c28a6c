#include "engine/record/record_batch.h"

#include <string>

#include "absl/strings/escaping.h"
#include "engine/record/batch_builder.h"
#include "engine/record/record.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

// Two records as Apache Kafka's producer writes them: k=v at 1000, and a null
// key with value w and header h=1 at 1005.
std::string KafkaBatch() {
  return absl::HexStringToBytes(
      "000000000000000000000046ffffffff0276c06490"
      "00000000000100000000000003e800000000000003edffffffffffffffffffffffffffff00000002"
      "10000000026b027600160"
      "00a020102770202680231");
}

TEST(RecordBatchTest, ReadsEveryHeaderFieldOfAKafkaBatch) {
  const std::string bytes = KafkaBatch();
  ASSERT_EQ(bytes.size(), 82u);
  const RecordBatchView view(bytes);
  EXPECT_EQ(view.base_offset(), 0);
  EXPECT_EQ(view.size_bytes(), 82);
  EXPECT_EQ(view.leader_epoch(), -1);
  EXPECT_EQ(view.magic(), 2);
  EXPECT_EQ(view.crc(), 0x76c06490u);
  EXPECT_EQ(view.attributes(), 0);
  EXPECT_EQ(view.last_offset_delta(), 1);
  EXPECT_EQ(view.last_offset(), 1);
  EXPECT_EQ(view.base_timestamp(), 1000);
  EXPECT_EQ(view.max_timestamp(), 1005);
  EXPECT_EQ(view.producer_id(), -1);
  EXPECT_EQ(view.producer_epoch(), -1);
  EXPECT_EQ(view.base_sequence(), -1);
  EXPECT_EQ(view.record_count(), 2);
  EXPECT_EQ(CheckBatchShape(bytes), BatchShape::kOk);
  EXPECT_EQ(ComputeBatchCrc(bytes), view.crc());
}

TEST(RecordBatchTest, BuilderMakesTheSameBytesAsKafka) {
  BatchBuilder builder;
  const RecordHeader header{"h", "1"};
  builder.Add(1000, "k", "v").Add(1005, std::nullopt, "w", {&header, 1});
  EXPECT_EQ(absl::BytesToHexString(builder.Build()), absl::BytesToHexString(KafkaBatch()));
}

TEST(RecordBatchTest, BuilderMakesTheSameCommitMarkerAsKafka) {
  BatchOptions options;
  options.base_offset = 7;
  options.leader_epoch = 0;
  options.is_transactional = true;
  options.is_control = true;
  options.producer_id = 9;
  options.producer_epoch = 1;
  BatchBuilder builder(options);
  builder.Add(2000, std::string("\0\0\0\1", 4), std::string("\0\0\0\0\0\3", 6));
  EXPECT_EQ(absl::BytesToHexString(builder.Build()),
            "0000000000000007000000420000000002"
            "81b4becd00300000000000000000000007d000000000000007d0"
            "00000000000000090001ffffffff00000001"
            "2000000008000000010c00000000000300");
}

TEST(RecordBatchTest, ReaderReturnsRecordsWithTheirHeaders) {
  const std::string bytes = KafkaBatch();
  const RecordBatchView view(bytes);
  RecordReader reader(view, view.payload());
  Record record;
  ASSERT_TRUE(reader.Next(&record));
  EXPECT_EQ(record.offset, 0);
  EXPECT_EQ(record.timestamp, 1000);
  EXPECT_EQ(record.key, "k");
  EXPECT_EQ(record.value, "v");
  EXPECT_TRUE(record.headers.empty());
  ASSERT_TRUE(reader.Next(&record));
  EXPECT_EQ(record.offset, 1);
  EXPECT_EQ(record.timestamp, 1005);
  EXPECT_FALSE(record.key.has_value());
  EXPECT_EQ(record.value, "w");
  ASSERT_EQ(record.headers.size(), 1u);
  EXPECT_EQ(record.headers[0].key, "h");
  EXPECT_EQ(record.headers[0].value, "1");
  EXPECT_FALSE(reader.Next(&record));
  EXPECT_TRUE(reader.ok());
}

TEST(RecordBatchTest, ReaderRefusesAPayloadCutAtAnyByte) {
  const std::string bytes = KafkaBatch();
  const RecordBatchView view(bytes);
  for (size_t size = 0; size < view.payload().size(); ++size) {
    // A copy of exactly this size: the sanitizer sees a read beyond it.
    const std::string cut(view.payload().substr(0, size));
    RecordReader reader(view, cut);
    Record record;
    while (reader.Next(&record)) {
    }
    EXPECT_FALSE(reader.ok()) << size;
  }
}

TEST(RecordBatchTest, ReaderRefusesBytesAfterTheLastRecord) {
  const std::string bytes = KafkaBatch();
  const RecordBatchView view(bytes);
  const std::string longer = std::string(view.payload()) + '\0';
  RecordReader reader(view, longer);
  Record record;
  while (reader.Next(&record)) {
  }
  EXPECT_FALSE(reader.ok());
}

TEST(RecordBatchTest, LogAppendTimeIsTheTimestampOfEveryRecord) {
  std::string bytes = KafkaBatch();
  bytes[batch::kAttributesAt + 1] |= batch::kLogAppendTimeBit;
  const RecordBatchView view(bytes);
  RecordReader reader(view, view.payload());
  Record record;
  ASSERT_TRUE(reader.Next(&record));
  EXPECT_EQ(record.timestamp, 1005);
}

TEST(RecordBatchTest, ShapeTellsWhatIsWrong) {
  std::string bytes = KafkaBatch();
  EXPECT_EQ(CheckBatchShape(absl::string_view(bytes).substr(0, 16)), BatchShape::kTooShort);
  EXPECT_EQ(CheckBatchShape(absl::string_view(bytes).substr(0, 81)), BatchShape::kIncomplete);
  std::string old = bytes;
  old[batch::kMagicAt] = 1;
  EXPECT_EQ(CheckBatchShape(old), BatchShape::kOldMagic);
  std::string unknown = bytes;
  unknown[batch::kMagicAt] = 3;
  EXPECT_EQ(CheckBatchShape(unknown), BatchShape::kBadMagic);
  std::string negative = bytes;
  negative[batch::kLengthAt] = '\xff';
  EXPECT_EQ(CheckBatchShape(negative), BatchShape::kTooShort);
  std::string below_zero = bytes;
  below_zero[batch::kLastOffsetDeltaAt] = '\xff';
  EXPECT_EQ(CheckBatchShape(below_zero), BatchShape::kBadCounts);
}

}  // namespace
}  // namespace gyre
