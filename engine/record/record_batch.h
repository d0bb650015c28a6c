// A record batch (magic 2) in place: where each field is, and a view that reads
// them. The header is 61 bytes; what follows is the records, compressed as one
// unit when the codec says so. All integers are big-endian.
//
//   offset bytes field                    offset bytes field
//        0     8 base offset                  23     4 last offset delta
//        8     4 batch length, from 12 on     27     8 base timestamp, ms
//       12     4 partition leader epoch       35     8 max timestamp, ms
//       16     1 magic                        43     8 producer id
//       17     4 CRC-32C of [21, end)         51     2 producer epoch
//       21     2 attributes                   53     4 base sequence
//                                             57     4 record count
//
// Base offset and leader epoch lie outside the CRC: the leader patches them.
#ifndef GYRE_ENGINE_RECORD_RECORD_BATCH_H_
#define GYRE_ENGINE_RECORD_RECORD_BATCH_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "engine/base/endian.h"

namespace gyre {

namespace batch {
inline constexpr size_t kBaseOffsetAt = 0;
inline constexpr size_t kLengthAt = 8;
inline constexpr size_t kLeaderEpochAt = 12;
inline constexpr size_t kMagicAt = 16;
inline constexpr size_t kCrcAt = 17;
inline constexpr size_t kAttributesAt = 21;
inline constexpr size_t kLastOffsetDeltaAt = 23;
inline constexpr size_t kBaseTimestampAt = 27;
inline constexpr size_t kMaxTimestampAt = 35;
inline constexpr size_t kProducerIdAt = 43;
inline constexpr size_t kProducerEpochAt = 51;
inline constexpr size_t kBaseSequenceAt = 53;
inline constexpr size_t kRecordCountAt = 57;
inline constexpr size_t kHeaderBytes = 61;

// Bytes before the length field's count starts: a batch is length + 12 bytes.
inline constexpr size_t kLengthOverhead = 12;
// What must be in hand to know the size and the magic of any entry of a log.
inline constexpr size_t kMinPrefixBytes = 17;
inline constexpr size_t kMinLength = kHeaderBytes - kLengthOverhead;

inline constexpr int16_t kCodecMask = 0x07;
inline constexpr int16_t kLogAppendTimeBit = 0x08;
inline constexpr int16_t kTransactionalBit = 0x10;
inline constexpr int16_t kControlBit = 0x20;
inline constexpr int16_t kDeleteHorizonBit = 0x40;
}  // namespace batch

enum class Codec : int8_t { kNone = 0, kGzip = 1, kSnappy = 2, kLz4 = 3, kZstd = 4 };

inline constexpr int64_t kNoTimestamp = -1;
inline constexpr int64_t kNoProducerId = -1;
inline constexpr int16_t kNoProducerEpoch = -1;
inline constexpr int32_t kNoSequence = -1;
inline constexpr int32_t kNoLeaderEpoch = -1;

// Reads the header of the batch that starts at `bytes`. Trusts nothing but that
// the 61 header bytes are there (precondition); size_bytes() may lie beyond
// what the caller holds, and is at most 2^31 + 11.
//
// Threads: immutable; borrows the bytes.
class RecordBatchView {
 public:
  explicit RecordBatchView(const char* bytes) : bytes_(bytes) {}
  explicit RecordBatchView(absl::string_view bytes) : bytes_(bytes.data()) {}

  int64_t base_offset() const { return Load<int64_t>(batch::kBaseOffsetAt); }
  // As stored; may be negative in damaged bytes.
  int32_t length() const { return Load<int32_t>(batch::kLengthAt); }
  // Of the whole batch, header included; meaningful when length() >= kMinLength.
  int64_t size_bytes() const {
    return static_cast<int64_t>(length()) + static_cast<int64_t>(batch::kLengthOverhead);
  }
  int32_t leader_epoch() const { return Load<int32_t>(batch::kLeaderEpochAt); }
  int8_t magic() const { return Load<int8_t>(batch::kMagicAt); }
  uint32_t crc() const { return Load<uint32_t>(batch::kCrcAt); }
  int16_t attributes() const { return Load<int16_t>(batch::kAttributesAt); }
  int32_t last_offset_delta() const { return Load<int32_t>(batch::kLastOffsetDeltaAt); }
  int64_t last_offset() const { return OffsetAfter(last_offset_delta()); }
  int64_t next_offset() const { return OffsetAfter(int64_t{last_offset_delta()} + 1); }
  int64_t base_timestamp() const { return Load<int64_t>(batch::kBaseTimestampAt); }
  int64_t max_timestamp() const { return Load<int64_t>(batch::kMaxTimestampAt); }
  int64_t producer_id() const { return Load<int64_t>(batch::kProducerIdAt); }
  int16_t producer_epoch() const { return Load<int16_t>(batch::kProducerEpochAt); }
  int32_t base_sequence() const { return Load<int32_t>(batch::kBaseSequenceAt); }
  int32_t record_count() const { return Load<int32_t>(batch::kRecordCountAt); }

  // The codec's number, 0..7; only 0..4 name one.
  int codec_id() const { return attributes() & batch::kCodecMask; }
  Codec codec() const { return static_cast<Codec>(codec_id()); }
  bool is_log_append_time() const { return (attributes() & batch::kLogAppendTimeBit) != 0; }
  bool is_transactional() const { return (attributes() & batch::kTransactionalBit) != 0; }
  bool is_control() const { return (attributes() & batch::kControlBit) != 0; }
  bool has_producer() const { return producer_id() >= 0; }

  const char* data() const { return bytes_; }
  // The records, still compressed if they are. The whole batch must be in hand.
  absl::string_view payload() const {
    return {bytes_ + batch::kHeaderBytes, static_cast<size_t>(size_bytes()) - batch::kHeaderBytes};
  }

 private:
  template <typename T>
  T Load(size_t at) const {
    return LoadBigEndian<T>(bytes_ + at);
  }
  // Unsigned: in damaged bytes the sum may wrap.
  int64_t OffsetAfter(int64_t delta) const {
    return static_cast<int64_t>(static_cast<uint64_t>(base_offset()) +
                                static_cast<uint64_t>(delta));
  }

  const char* bytes_;
};

// What is wrong with the header of a batch, or kOk. Only what can be told from
// the 61 bytes; the CRC is not computed.
enum class BatchShape : uint8_t {
  kOk,
  kTooShort,    // fewer than 61 bytes in hand, or the length says so
  kIncomplete,  // the length goes beyond the bytes in hand
  kOldMagic,    // magic 0 or 1: a message set of before 2017
  kBadMagic,
  kBadCounts,  // negative offset or delta
};

// Judges the batch at the start of `bytes`.
BatchShape CheckBatchShape(absl::string_view bytes);
absl::string_view BatchShapeName(BatchShape shape);

// The CRC-32C that the whole batch at `bytes` should carry.
uint32_t ComputeBatchCrc(absl::string_view bytes);

}  // namespace gyre

#endif  // GYRE_ENGINE_RECORD_RECORD_BATCH_H_
