#include "engine/record/validator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/record/compression.h"
#include "engine/record/record_scanner.h"

namespace gyre {
namespace {

ValidationResult Refuse(ErrorCode error, std::string message) {
  ValidationResult result;
  result.error = error;
  result.message = std::move(message);
  return result;
}

ValidationResult InvalidRecord(std::string message) {
  return Refuse(ErrorCode::kInvalidRecord, std::move(message));
}

// What the framing around the batch must be: exactly one, whole, of magic 2.
ValidationResult CheckFraming(absl::string_view records) {
  const BatchShape shape = CheckBatchShape(records);
  switch (shape) {
    case BatchShape::kOk:
      break;
    case BatchShape::kOldMagic:
      return InvalidRecord("Produce requests must hold record batches of magic 2");
    case BatchShape::kBadMagic:
      return Refuse(ErrorCode::kCorruptMessage, "Unknown magic in the record batch");
    case BatchShape::kTooShort:
      // Cut short, or a length that no batch can have.
      if (records.size() < batch::kMinPrefixBytes ||
          RecordBatchView(records).length() >= static_cast<int32_t>(batch::kMinLength)) {
        return InvalidRecord("Produce requests must hold at least one whole record batch");
      }
      return Refuse(ErrorCode::kCorruptMessage, "The record batch is shorter than its header");
    case BatchShape::kIncomplete:
      return InvalidRecord("The record batch is cut short");
    case BatchShape::kBadCounts:
      return InvalidRecord("The record batch has a negative offset, offset range or count");
  }
  if (RecordBatchView(records).size_bytes() != static_cast<int64_t>(records.size())) {
    return InvalidRecord("Produce requests must hold exactly one record batch");
  }
  return {};
}

ValidationResult CheckCodec(const RecordBatchView& view, const ValidationRules& rules) {
  if (view.codec_id() > static_cast<int>(Codec::kZstd)) {
    return Refuse(ErrorCode::kUnsupportedCompressionType,
                  absl::StrCat("Unknown compression type ", view.codec_id()));
  }
  if (view.codec() == Codec::kZstd && rules.produce_version < 7) {
    return Refuse(ErrorCode::kUnsupportedCompressionType,
                  "Produce requests before version 7 may not use zstd");
  }
  return {};
}

ValidationResult CheckHeader(const RecordBatchView& view, const ValidationRules& rules) {
  if (view.base_offset() != 0) {
    return InvalidRecord(
        absl::StrCat("The base offset of the batch should be 0, but is ", view.base_offset()));
  }
  if (view.record_count() <= 0) {
    return InvalidRecord(absl::StrCat("The batch claims ", view.record_count(), " records"));
  }
  if (view.last_offset_delta() != view.record_count() - 1) {
    return InvalidRecord(absl::StrCat("The batch's offset range of ",
                                      int64_t{view.last_offset_delta()} + 1,
                                      " does not fit its count of ", view.record_count()));
  }
  if (view.is_control() && rules.origin == AppendOrigin::kClient) {
    return InvalidRecord("Clients are not allowed to write control records");
  }
  if (view.has_producer() && view.base_sequence() < 0 && !view.is_control()) {
    return InvalidRecord(absl::StrCat("Invalid sequence number ", view.base_sequence(),
                                      " with producer id ", view.producer_id()));
  }
  if (view.has_producer() && view.producer_epoch() < 0) {
    return InvalidRecord(absl::StrCat("Invalid producer epoch ", view.producer_epoch()));
  }
  if (view.is_log_append_time()) {
    return Refuse(ErrorCode::kInvalidTimestamp,
                  "Producers must not set the timestamp type to LogAppendTime");
  }
  return {};
}

// Collects the errors of single records, up to a bound.
class RecordErrors {
 public:
  void Add(int32_t index, ErrorCode code, std::string message) {
    ++count_;
    has_timestamp_ = has_timestamp_ || code == ErrorCode::kInvalidTimestamp;
    if (errors_.size() < kMaxRecordErrors) errors_.push_back({index, std::move(message)});
  }
  bool empty() const { return count_ == 0; }
  ValidationResult Take() {
    ValidationResult result =
        Refuse(has_timestamp_ ? ErrorCode::kInvalidTimestamp : ErrorCode::kInvalidRecord,
               absl::StrCat("One or more records have been rejected: ", count_,
                            " in total, first: ", errors_.front().message));
    result.record_errors = std::move(errors_);
    return result;
  }

 private:
  int64_t count_ = 0;
  bool has_timestamp_ = false;
  std::vector<RecordError> errors_;
};

bool IsTimestampAllowed(int64_t timestamp, const ValidationRules& rules) {
  if (rules.log_append_time || timestamp == kNoTimestamp) return true;
  // Differences of int64 may overflow: compare in 128 bits.
  const __int128 age = static_cast<__int128>(rules.now_ms) - timestamp;
  return age <= rules.timestamp_before_max_ms && -age <= rules.timestamp_after_max_ms;
}

ValidationResult CheckRecords(const RecordBatchView& view, const ValidationRules& rules) {
  // A codec's context costs more to make than a small batch to check.
  thread_local Decompressor decompressor;
  RecordScanner scanner(
      view, decompressor,
      view.codec() == Codec::kNone ? kMaxDecompressedBytes : rules.max_decompressed_bytes);
  RecordErrors errors;
  ScannedRecord record;
  int64_t max_timestamp = kNoTimestamp;
  for (int32_t index = 0; scanner.Next(&record); ++index) {
    if (record.offset_delta != index) {
      return InvalidRecord(absl::StrCat("Record ", index, " has offset delta ", record.offset_delta,
                                        ": they must be 0, 1, 2, …"));
    }
    max_timestamp = std::max(max_timestamp, record.timestamp);
    if (rules.is_compacted && record.key_bytes < 0) {
      errors.Add(index, ErrorCode::kInvalidRecord,
                 absl::StrCat("Compacted topic cannot accept message without key: record ", index));
    } else if (!IsTimestampAllowed(record.timestamp, rules)) {
      errors.Add(
          index, ErrorCode::kInvalidTimestamp,
          absl::StrCat("Timestamp ", record.timestamp, " of record ", index,
                       " is out of range: it should be within [", -rules.timestamp_before_max_ms,
                       ", ", rules.timestamp_after_max_ms, "] ms of ", rules.now_ms));
    }
  }
  if (!scanner.status().ok()) {
    return InvalidRecord(
        absl::StrCat("The record batch is malformed: ", scanner.status().message()));
  }
  if (!errors.empty()) return errors.Take();
  ValidationResult result;
  result.max_timestamp = max_timestamp;
  return result;
}

}  // namespace

ValidationResult ValidateBatch(absl::string_view records, const ValidationRules& rules) {
  if (ValidationResult result = CheckFraming(records); !result.ok()) return result;
  const RecordBatchView view(records);
  if (ValidationResult result = CheckCodec(view, rules); !result.ok()) return result;
  if (view.size_bytes() > rules.max_message_bytes) {
    return Refuse(
        ErrorCode::kMessageTooLarge,
        absl::StrCat("The record batch of ", view.size_bytes(),
                     " bytes is larger than max.message.bytes ", rules.max_message_bytes));
  }
  if (view.size_bytes() > rules.segment_bytes) {
    return Refuse(ErrorCode::kRecordListTooLarge,
                  absl::StrCat("The record batch of ", view.size_bytes(),
                               " bytes is larger than segment.bytes ", rules.segment_bytes));
  }
  if (view.crc() != ComputeBatchCrc(records)) {
    return Refuse(ErrorCode::kCorruptMessage, "The record batch's CRC does not match its bytes");
  }
  if (ValidationResult result = CheckHeader(view, rules); !result.ok()) return result;
  return CheckRecords(view, rules);
}

ValidationResult ValidateReplicated(absl::string_view records) {
  if (records.empty()) return InvalidRecord("No record batch");
  int64_t next_offset = -1;
  while (!records.empty()) {
    const BatchShape shape = CheckBatchShape(records);
    if (shape != BatchShape::kOk) {
      return Refuse(ErrorCode::kCorruptMessage,
                    absl::StrCat("Replicated batch: ", BatchShapeName(shape)));
    }
    const RecordBatchView view(records);
    const absl::string_view bytes = records.substr(0, static_cast<size_t>(view.size_bytes()));
    if (view.crc() != ComputeBatchCrc(bytes)) {
      return Refuse(ErrorCode::kCorruptMessage, "Replicated batch: CRC does not match its bytes");
    }
    if (view.base_offset() < next_offset) {
      return Refuse(ErrorCode::kCorruptMessage, "Replicated batches: offsets do not rise");
    }
    next_offset = view.next_offset();
    records.remove_prefix(bytes.size());
  }
  return {};
}

namespace {

void RestampCrc(char* header, absl::string_view payload) {
  uint32_t crc = Crc32c(header + batch::kAttributesAt, batch::kHeaderBytes - batch::kAttributesAt);
  crc = ExtendCrc32c(crc, payload.data(), payload.size());
  StoreBigEndian<uint32_t>(header + batch::kCrcAt, crc);
}

}  // namespace

void StampLogAppendTime(char* header, absl::string_view payload, int64_t append_time_ms) {
  const int16_t attributes = LoadBigEndian<int16_t>(header + batch::kAttributesAt);
  StoreBigEndian<int16_t>(header + batch::kAttributesAt,
                          static_cast<int16_t>(attributes | batch::kLogAppendTimeBit));
  StampMaxTimestamp(header, payload, append_time_ms);
}

void StampMaxTimestamp(char* header, absl::string_view payload, int64_t max_timestamp) {
  StoreBigEndian<int64_t>(header + batch::kMaxTimestampAt, max_timestamp);
  RestampCrc(header, payload);
}

}  // namespace gyre
