#include "engine/record/batch_builder.h"

#include <algorithm>
#include <utility>

#include "proto/wire/varint.h"

namespace gyre {
namespace {

void AppendUvarint(std::string* to, uint64_t value) {
  char bytes[wire::kMaxVarlongSize];
  to->append(bytes, static_cast<size_t>(wire::PutUvarint(bytes, value) - bytes));
}

void AppendVarint(std::string* to, int64_t value) { AppendUvarint(to, wire::ZigZagEncode(value)); }

void AppendBytes(std::string* to, std::optional<absl::string_view> bytes) {
  if (!bytes.has_value()) return AppendVarint(to, -1);
  AppendVarint(to, static_cast<int64_t>(bytes->size()));
  to->append(bytes->data(), bytes->size());
}

}  // namespace

BatchBuilder& BatchBuilder::Add(int64_t timestamp, std::optional<absl::string_view> key,
                                std::optional<absl::string_view> value,
                                absl::Span<const RecordHeader> headers) {
  if (record_count_ == 0) base_timestamp_ = timestamp;
  max_timestamp_ = std::max(max_timestamp_, timestamp);
  std::string body(1, '\0');  // attributes
  AppendVarint(&body, timestamp - base_timestamp_);
  AppendVarint(&body, record_count_);
  AppendBytes(&body, key);
  AppendBytes(&body, value);
  AppendVarint(&body, static_cast<int64_t>(headers.size()));
  for (const RecordHeader& header : headers) {
    AppendBytes(&body, header.key);
    AppendBytes(&body, header.value);
  }
  AppendVarint(&records_, static_cast<int64_t>(body.size()));
  records_ += body;
  ++record_count_;
  return *this;
}

std::string BatchBuilder::Build() {
  const std::string records = std::exchange(records_, std::string());
  std::string bytes(batch::kHeaderBytes, '\0');
  bytes += Compress(options_.codec, records, options_.snappy_framing);
  char* header = bytes.data();
  int16_t attributes = static_cast<int16_t>(options_.codec);
  if (options_.is_transactional) attributes |= batch::kTransactionalBit;
  if (options_.is_control) attributes |= batch::kControlBit;
  StoreBigEndian<int64_t>(header + batch::kBaseOffsetAt, options_.base_offset);
  StoreBigEndian<int32_t>(header + batch::kLengthAt,
                          static_cast<int32_t>(bytes.size() - batch::kLengthOverhead));
  StoreBigEndian<int32_t>(header + batch::kLeaderEpochAt, options_.leader_epoch);
  StoreBigEndian<int8_t>(header + batch::kMagicAt, 2);
  StoreBigEndian<int16_t>(header + batch::kAttributesAt, attributes);
  StoreBigEndian<int32_t>(header + batch::kLastOffsetDeltaAt, record_count_ - 1);
  StoreBigEndian<int64_t>(header + batch::kBaseTimestampAt, base_timestamp_);
  StoreBigEndian<int64_t>(header + batch::kMaxTimestampAt, max_timestamp_);
  StoreBigEndian<int64_t>(header + batch::kProducerIdAt, options_.producer_id);
  StoreBigEndian<int16_t>(header + batch::kProducerEpochAt, options_.producer_epoch);
  StoreBigEndian<int32_t>(header + batch::kBaseSequenceAt, options_.base_sequence);
  StoreBigEndian<int32_t>(header + batch::kRecordCountAt, record_count_);
  StoreBigEndian<uint32_t>(header + batch::kCrcAt, ComputeBatchCrc(bytes));
  record_count_ = 0;
  base_timestamp_ = kNoTimestamp;
  max_timestamp_ = kNoTimestamp;
  return bytes;
}

}  // namespace gyre
