// One record of a batch, and a reader over the records of a batch whose payload
// is in one piece (plain, or already decompressed).
//
//   varint length of what follows | int8 attributes | varlong timestamp delta |
//   varint offset delta | varint key length (-1 null), key | varint value length
//   (-1 null), value | varint header count | per header: varint key length, key,
//   varint value length (-1 null), value
#ifndef GYRE_ENGINE_RECORD_RECORD_H_
#define GYRE_ENGINE_RECORD_RECORD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/record/record_batch.h"

namespace gyre {

struct RecordHeader {
  absl::string_view key;
  std::optional<absl::string_view> value;

  bool operator==(const RecordHeader&) const = default;
};

// Views into the payload.
struct Record {
  int64_t offset = 0;
  int64_t timestamp = kNoTimestamp;
  std::optional<absl::string_view> key;
  std::optional<absl::string_view> value;
  std::vector<RecordHeader> headers;
};

// Threads: one at a time; borrows the payload.
// Invariant: never reads outside the payload, whatever it holds.
class RecordReader {
 public:
  // `payload` is the decompressed payload of `batch`, of which only the header
  // is read.
  RecordReader(const RecordBatchView& batch, absl::string_view payload)
      : batch_(batch), at_(payload.data()), end_(payload.data() + payload.size()) {}

  // False at the end, or when the payload is malformed (then !ok()).
  bool Next(Record* record);
  // False once a record was malformed, or bytes or records are left over.
  bool ok() const { return ok_; }

 private:
  bool Fail();
  bool ReadBytes(const char* end, std::optional<absl::string_view>* bytes);
  bool ReadBody(const char* end, Record* record);

  RecordBatchView batch_;
  const char* at_;
  const char* end_;
  int32_t read_count_ = 0;
  bool ok_ = true;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_RECORD_RECORD_H_
