// Walks the records of a batch without their keys and values, decompressing as
// it goes: what validation and lookups by timestamp need. Memory is one window,
// whatever the batch expands to.
//
// Threads: one at a time.
// Borrows: the batch's bytes and the decompressor.
#ifndef GYRE_ENGINE_RECORD_RECORD_SCANNER_H_
#define GYRE_ENGINE_RECORD_RECORD_SCANNER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/record/compression.h"
#include "engine/record/record_batch.h"

namespace gyre {

struct ScannedRecord {
  int64_t timestamp = kNoTimestamp;
  int32_t offset_delta = 0;
  int32_t key_bytes = -1;  // -1: null
};

class RecordScanner {
 public:
  // The whole batch is at `batch`; its codec is one of the known ones.
  RecordScanner(const RecordBatchView& batch, Decompressor& decompressor,
                int64_t limit_bytes = kMaxDecompressedBytes);

  // False after the last record, or at the first malformed one.
  bool Next(ScannedRecord* record);
  // What stopped the scan; OK after exactly record_count() well-formed records
  // that fill the payload.
  const absl::Status& status() const { return status_; }

 private:
  bool Refill();
  bool ReadByte(uint8_t* byte);
  template <typename Unsigned>
  bool ReadUvarint(Unsigned* value);
  bool ReadVarint(int32_t* value);
  bool Skip(int64_t bytes);
  bool SkipBytes(int32_t* size_bytes, bool nullable);
  bool ScanBody(ScannedRecord* record);
  bool Fail(absl::string_view why);
  // Bytes of the payload consumed so far.
  int64_t Position() const { return before_chunk_ + (at_ - begin_); }

  const RecordBatchView batch_;
  Decompressor& decompressor_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int64_t before_chunk_ = 0;
  int64_t record_end_ = 0;
  int32_t scanned_count_ = 0;
  const int32_t record_count_;
  bool done_ = false;
  absl::Status status_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_RECORD_RECORD_SCANNER_H_
