#include "engine/record/validator.h"

#include <functional>
#include <string>

#include "engine/base/endian.h"
#include "engine/base/random.h"
#include "engine/record/batch_builder.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int64_t kNow = 1'700'000'000'000;

ValidationRules Rules() {
  ValidationRules rules;
  rules.now_ms = kNow;
  return rules;
}

std::string Batch(Codec codec = Codec::kNone, int record_count = 3) {
  BatchOptions options;
  options.codec = codec;
  BatchBuilder builder(options);
  const RecordHeader header{"name", std::nullopt};
  for (int i = 0; i < record_count; ++i) {
    builder.Add(kNow + i, "key" + std::to_string(i), std::string(100, 'v'), {&header, 1});
  }
  return builder.Build();
}

std::string Resigned(std::string bytes) {
  StoreBigEndian<uint32_t>(bytes.data() + batch::kCrcAt, ComputeBatchCrc(bytes));
  return bytes;
}

template <typename T>
std::string With(std::string bytes, size_t at, T value) {
  StoreBigEndian<T>(bytes.data() + at, value);
  return Resigned(std::move(bytes));
}

ErrorCode Validate(absl::string_view bytes, const ValidationRules& rules = Rules()) {
  return ValidateBatch(bytes, rules).error;
}

TEST(ValidatorTest, AcceptsEveryCodecAndTellsTheLargestTimestamp) {
  for (const Codec codec :
       {Codec::kNone, Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    const ValidationResult result = ValidateBatch(Batch(codec), Rules());
    EXPECT_TRUE(result.ok()) << CodecName(codec) << ": " << result.message;
    EXPECT_EQ(result.max_timestamp, kNow + 2);
  }
}

TEST(ValidatorTest, AWrongCrcIsCorrupt) {
  std::string bytes = Batch();
  bytes.back() ^= 1;
  EXPECT_EQ(Validate(bytes), ErrorCode::kCorruptMessage);
}

TEST(ValidatorTest, ExactlyOneWholeBatchIsNeeded) {
  EXPECT_EQ(Validate(""), ErrorCode::kInvalidRecord);
  EXPECT_EQ(Validate(Batch() + Batch()), ErrorCode::kInvalidRecord);
  EXPECT_EQ(Validate(Batch() + "x"), ErrorCode::kInvalidRecord);
  const std::string whole = Batch();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(Validate(whole.substr(0, size)), ErrorCode::kNone) << size;
  }
}

TEST(ValidatorTest, ABatchCutShortIsInvalidAndNotCorrupt) {
  // Corrupt would make the producer send the same bytes again.
  const std::string whole = Batch();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Validate(whole.substr(0, size)), ErrorCode::kInvalidRecord) << size;
  }
}

TEST(ValidatorTest, OldAndUnknownMagicAreRefused) {
  std::string bytes = Batch();
  bytes[batch::kMagicAt] = 1;
  EXPECT_EQ(Validate(bytes), ErrorCode::kInvalidRecord);
  bytes[batch::kMagicAt] = 3;
  EXPECT_EQ(Validate(bytes), ErrorCode::kCorruptMessage);
}

TEST(ValidatorTest, ALengthBelowTheHeaderIsCorrupt) {
  std::string bytes = Batch();
  StoreBigEndian<int32_t>(bytes.data() + batch::kLengthAt, 20);
  EXPECT_EQ(Validate(bytes), ErrorCode::kCorruptMessage);
}

TEST(ValidatorTest, CountsAndOffsetsMustFit) {
  EXPECT_EQ(Validate(With<int64_t>(Batch(), batch::kBaseOffsetAt, 5)), ErrorCode::kInvalidRecord);
  EXPECT_EQ(Validate(With<int32_t>(Batch(), batch::kRecordCountAt, 0)), ErrorCode::kInvalidRecord);
  EXPECT_EQ(Validate(With<int32_t>(Batch(), batch::kRecordCountAt, 2)), ErrorCode::kInvalidRecord);
  EXPECT_EQ(Validate(With<int32_t>(Batch(), batch::kLastOffsetDeltaAt, 3)),
            ErrorCode::kInvalidRecord);
  EXPECT_EQ(Validate(With<int32_t>(Batch(), batch::kLastOffsetDeltaAt, -1)),
            ErrorCode::kInvalidRecord);
}

TEST(ValidatorTest, CountsMustFitWhatTheCompressedPayloadHolds) {
  for (const Codec codec :
       {Codec::kNone, Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    for (const int32_t count : {2, 4}) {
      std::string bytes = Batch(codec);
      StoreBigEndian<int32_t>(bytes.data() + batch::kRecordCountAt, count);
      StoreBigEndian<int32_t>(bytes.data() + batch::kLastOffsetDeltaAt, count - 1);
      EXPECT_EQ(Validate(Resigned(bytes)), ErrorCode::kInvalidRecord)
          << CodecName(codec) << " " << count;
    }
  }
}

TEST(ValidatorTest, OffsetDeltasMustCountUp) {
  BatchBuilder builder;
  builder.Add(kNow, "k", "v").Add(kNow, "k", "v");
  std::string bytes = builder.Build();
  // Record: length, attributes, timestamp delta, offset delta.
  const size_t record_bytes = (bytes.size() - batch::kHeaderBytes) / 2;
  bytes[batch::kHeaderBytes + record_bytes + 3] = 4;
  EXPECT_EQ(Validate(Resigned(bytes)), ErrorCode::kInvalidRecord);
}

TEST(ValidatorTest, ControlBatchesAreForTheCoordinatorOnly) {
  BatchOptions options;
  options.is_control = true;
  BatchBuilder builder(options);
  const std::string bytes = builder.Add(kNow, std::string(4, '\0'), std::string(6, '\0')).Build();
  EXPECT_EQ(Validate(bytes), ErrorCode::kInvalidRecord);
  ValidationRules rules = Rules();
  rules.origin = AppendOrigin::kCoordinator;
  EXPECT_EQ(Validate(bytes, rules), ErrorCode::kNone);
}

TEST(ValidatorTest, AProducerNeedsASequenceAndAnEpoch) {
  std::string bytes = With<int64_t>(Batch(), batch::kProducerIdAt, 7);
  EXPECT_EQ(Validate(bytes), ErrorCode::kInvalidRecord);
  bytes = With<int32_t>(bytes, batch::kBaseSequenceAt, 0);
  EXPECT_EQ(Validate(bytes), ErrorCode::kInvalidRecord);
  bytes = With<int16_t>(bytes, batch::kProducerEpochAt, 0);
  EXPECT_EQ(Validate(bytes), ErrorCode::kNone);
}

TEST(ValidatorTest, SizesAreBounded) {
  const std::string bytes = Batch();
  ValidationRules rules = Rules();
  rules.max_message_bytes = static_cast<int32_t>(bytes.size());
  EXPECT_EQ(Validate(bytes, rules), ErrorCode::kNone);
  --rules.max_message_bytes;
  EXPECT_EQ(Validate(bytes, rules), ErrorCode::kMessageTooLarge);
  rules = Rules();
  rules.segment_bytes = static_cast<int64_t>(bytes.size()) - 1;
  EXPECT_EQ(Validate(bytes, rules), ErrorCode::kRecordListTooLarge);
}

TEST(ValidatorTest, ZstdNeedsProduceSeven) {
  ValidationRules rules = Rules();
  rules.produce_version = 6;
  EXPECT_EQ(Validate(Batch(Codec::kZstd), rules), ErrorCode::kUnsupportedCompressionType);
  rules.produce_version = 7;
  EXPECT_EQ(Validate(Batch(Codec::kZstd), rules), ErrorCode::kNone);
}

TEST(ValidatorTest, AnUnknownCodecIsRefused) {
  EXPECT_EQ(Validate(With<int16_t>(Batch(), batch::kAttributesAt, 5)),
            ErrorCode::kUnsupportedCompressionType);
}

TEST(ValidatorTest, NullKeysAreRefusedOnCompactedTopicsRecordByRecord) {
  BatchBuilder builder;
  builder.Add(kNow, "k", "v").Add(kNow, std::nullopt, "v").Add(kNow, std::nullopt, "v");
  const std::string bytes = builder.Build();
  EXPECT_EQ(Validate(bytes), ErrorCode::kNone);
  ValidationRules rules = Rules();
  rules.is_compacted = true;
  const ValidationResult result = ValidateBatch(bytes, rules);
  EXPECT_EQ(result.error, ErrorCode::kInvalidRecord);
  ASSERT_EQ(result.record_errors.size(), 2u);
  EXPECT_EQ(result.record_errors[0].batch_index, 1);
  EXPECT_EQ(result.record_errors[1].batch_index, 2);
}

TEST(ValidatorTest, ATimestampOutOfTheWindowNamesTheErrorOfTheWholeBatch) {
  BatchBuilder builder;
  builder.Add(kNow, std::nullopt, "v").Add(kNow + 7'200'000, "k", "v");
  ValidationRules rules = Rules();
  rules.is_compacted = true;
  const ValidationResult result = ValidateBatch(builder.Build(), rules);
  EXPECT_EQ(result.error, ErrorCode::kInvalidTimestamp);
  EXPECT_EQ(result.record_errors.size(), 2u);
}

TEST(ValidatorTest, WhatACompressedBatchExpandsToIsBounded) {
  ValidationRules rules = Rules();
  rules.max_decompressed_bytes = 300;
  EXPECT_EQ(Validate(Batch(Codec::kNone), rules), ErrorCode::kNone);
  for (const Codec codec : {Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    EXPECT_EQ(Validate(Batch(codec), rules), ErrorCode::kInvalidRecord) << CodecName(codec);
    EXPECT_EQ(Validate(Batch(codec, 1), rules), ErrorCode::kNone) << CodecName(codec);
  }
}

TEST(ValidatorTest, TimestampsMustLieInTheWindow) {
  ValidationRules rules = Rules();
  rules.timestamp_before_max_ms = 1000;
  const auto at = [&](int64_t timestamp) {
    BatchBuilder builder;
    return Validate(builder.Add(timestamp, "k", "v").Build(), rules);
  };
  EXPECT_EQ(at(kNow - 1000), ErrorCode::kNone);
  EXPECT_EQ(at(kNow - 1001), ErrorCode::kInvalidTimestamp);
  EXPECT_EQ(at(kNow + 3'600'000), ErrorCode::kNone);
  EXPECT_EQ(at(kNow + 3'600'001), ErrorCode::kInvalidTimestamp);
  EXPECT_EQ(at(kNoTimestamp), ErrorCode::kNone);
  EXPECT_EQ(at(INT64_MIN), ErrorCode::kInvalidTimestamp);
  rules.log_append_time = true;
  EXPECT_EQ(at(kNow - 1001), ErrorCode::kNone);
}

TEST(ValidatorTest, ClientsMustNotSetLogAppendTime) {
  EXPECT_EQ(Validate(With<int16_t>(Batch(), batch::kAttributesAt, batch::kLogAppendTimeBit)),
            ErrorCode::kInvalidTimestamp);
}

TEST(ValidatorTest, ACorruptCompressedPayloadWithARightCrcIsRefused) {
  for (const Codec codec : {Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    std::string bytes = Batch(codec);
    for (size_t at = batch::kHeaderBytes + 12; at < bytes.size(); ++at) bytes[at] = '\x5a';
    EXPECT_EQ(Validate(Resigned(bytes)), ErrorCode::kInvalidRecord) << CodecName(codec);
  }
}

TEST(ValidatorTest, RandomPayloadsWithARightCrcNeverCrash) {
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = Batch(static_cast<Codec>(random.Below(5)), 2);
    const uint64_t changes = 1 + random.Below(8);
    for (uint64_t change = 0; change < changes; ++change) {
      const size_t at = batch::kAttributesAt + random.Below(bytes.size() - batch::kAttributesAt);
      bytes[at] = static_cast<char>(random.Next());
    }
    (void)Validate(Resigned(bytes));
  }
}

TEST(ValidatorTest, RecordErrorsAreBounded) {
  BatchBuilder builder;
  for (int i = 0; i < 10000; ++i) builder.Add(kNow, std::nullopt, std::nullopt);
  ValidationRules rules = Rules();
  rules.is_compacted = true;
  EXPECT_EQ(ValidateBatch(builder.Build(), rules).record_errors.size(),
            static_cast<size_t>(kMaxRecordErrors));
}

TEST(ValidatorTest, StampingLogAppendTimeLeavesARightCrc) {
  std::string bytes = Batch(Codec::kZstd);
  StampLogAppendTime(bytes.data(), RecordBatchView(bytes).payload(), kNow + 99);
  const RecordBatchView view(bytes);
  EXPECT_TRUE(view.is_log_append_time());
  EXPECT_EQ(view.codec(), Codec::kZstd);
  EXPECT_EQ(view.max_timestamp(), kNow + 99);
  EXPECT_EQ(view.crc(), ComputeBatchCrc(bytes));
}

TEST(ValidatorTest, ReplicatedBatchesNeedRightCrcsAndRisingOffsets) {
  const std::string first = With<int64_t>(Batch(), batch::kBaseOffsetAt, 10);
  const std::string second = With<int64_t>(Batch(), batch::kBaseOffsetAt, 13);
  EXPECT_TRUE(ValidateReplicated(first + second).ok());
  EXPECT_EQ(ValidateReplicated(second + first).error, ErrorCode::kCorruptMessage);
  EXPECT_EQ(ValidateReplicated(first + second.substr(1)).error, ErrorCode::kCorruptMessage);
  std::string damaged = first + second;
  damaged.back() ^= 1;
  EXPECT_EQ(ValidateReplicated(damaged).error, ErrorCode::kCorruptMessage);
}

}  // namespace
}  // namespace gyre
