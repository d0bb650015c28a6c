#include "engine/record/record_scanner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/wire/varint.h"

namespace gyre {

RecordScanner::RecordScanner(const RecordBatchView& batch, Decompressor& decompressor,
                             int64_t limit_bytes)
    : batch_(batch), decompressor_(decompressor), record_count_(batch.record_count()) {
  decompressor_.Start(batch.codec(), batch.payload(), limit_bytes);
}

bool RecordScanner::Fail(absl::string_view why) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat("record ", scanned_count_, ": ", why));
  }
  done_ = true;
  return false;
}

bool RecordScanner::Refill() {
  before_chunk_ += end_ - begin_;
  absl::StatusOr<absl::string_view> chunk = decompressor_.NextChunk();
  if (!chunk.ok()) {
    status_ = chunk.status();
    chunk = absl::string_view();
  }
  begin_ = at_ = chunk->data();
  end_ = begin_ + chunk->size();
  return at_ != end_;
}

bool RecordScanner::ReadByte(uint8_t* byte) {
  if (at_ == end_ && !Refill()) return false;
  *byte = static_cast<uint8_t>(*at_++);
  return true;
}

template <typename Unsigned>
bool RecordScanner::ReadUvarint(Unsigned* value) {
  // Enough for the longest number: no refill can be needed on the way.
  if (end_ - at_ >= static_cast<ptrdiff_t>(wire::kMaxVarlongSize)) {
    const char* next = wire::ParseUvarint(at_, end_, value);
    if (next == nullptr) return false;
    at_ = next;
    return true;
  }
  char bytes[wire::kMaxVarlongSize];
  size_t size = 0;
  uint8_t byte = 0;
  do {
    if (size == sizeof bytes || !ReadByte(&byte)) return false;
    bytes[size++] = static_cast<char>(byte);
  } while (byte >= 0x80);
  return wire::ParseUvarint(bytes, bytes + size, value) == bytes + size;
}

bool RecordScanner::ReadVarint(int32_t* value) {
  uint32_t raw = 0;
  if (!ReadUvarint(&raw)) return false;
  *value = wire::ZigZagDecode(raw);
  return true;
}

bool RecordScanner::Skip(int64_t bytes) {
  while (bytes > 0) {
    if (at_ == end_ && !Refill()) return false;
    const int64_t step = std::min<int64_t>(bytes, end_ - at_);
    at_ += step;
    bytes -= step;
  }
  return true;
}

bool RecordScanner::SkipBytes(int32_t* size_bytes, bool nullable) {
  if (!ReadVarint(size_bytes)) return false;
  if (*size_bytes < (nullable ? -1 : 0)) return false;
  // Checked before the skip: a length beyond the record must not be followed.
  if (*size_bytes > record_end_ - Position()) return false;
  return *size_bytes <= 0 || Skip(*size_bytes);
}

bool RecordScanner::ScanBody(ScannedRecord* record) {
  uint8_t attributes = 0;
  uint64_t timestamp_delta = 0;
  if (!ReadByte(&attributes) || !ReadUvarint(&timestamp_delta) ||
      !ReadVarint(&record->offset_delta)) {
    return false;
  }
  record->timestamp =
      batch_.is_log_append_time()
          ? batch_.max_timestamp()
          : static_cast<int64_t>(static_cast<uint64_t>(batch_.base_timestamp()) +
                                 static_cast<uint64_t>(wire::ZigZagDecode(timestamp_delta)));
  int32_t value_bytes = 0;
  if (!SkipBytes(&record->key_bytes, true) || !SkipBytes(&value_bytes, true)) return false;
  int32_t header_count = 0;
  if (!ReadVarint(&header_count) || header_count < 0) return false;
  if (header_count > (record_end_ - Position()) / 2) return false;
  for (int32_t i = 0; i < header_count; ++i) {
    int32_t size_bytes = 0;
    if (!SkipBytes(&size_bytes, false) || !SkipBytes(&size_bytes, true)) return false;
  }
  return Position() == record_end_;
}

bool RecordScanner::Next(ScannedRecord* record) {
  if (done_) return false;
  if (scanned_count_ == record_count_) {
    done_ = true;
    const bool has_more = at_ != end_ || Refill();
    return has_more ? Fail("bytes are left after the last record") : false;
  }
  int32_t length = 0;
  if (!ReadVarint(&length)) return Fail("cut short");
  if (length < 0) return Fail("negative length");
  record_end_ = Position() + length;
  if (!ScanBody(record)) return Fail("malformed");
  ++scanned_count_;
  return true;
}

}  // namespace gyre
