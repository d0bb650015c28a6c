#include "engine/record/record.h"

#include "proto/wire/varint.h"

namespace gyre {
namespace {

template <typename Signed, typename Unsigned>
const char* ParseSigned(const char* from, const char* end, Signed* value) {
  Unsigned raw = 0;
  from = wire::ParseUvarint(from, end, &raw);
  if (from != nullptr) *value = wire::ZigZagDecode(raw);
  return from;
}

const char* ParseVarint(const char* from, const char* end, int32_t* value) {
  return ParseSigned<int32_t, uint32_t>(from, end, value);
}

const char* ParseVarlong(const char* from, const char* end, int64_t* value) {
  return ParseSigned<int64_t, uint64_t>(from, end, value);
}

}  // namespace

bool RecordReader::Fail() {
  ok_ = false;
  return false;
}

bool RecordReader::ReadBytes(const char* end, std::optional<absl::string_view>* bytes) {
  int32_t size = 0;
  at_ = ParseVarint(at_, end, &size);
  if (at_ == nullptr || size < -1 || size > end - at_) return false;
  if (size < 0) {
    bytes->reset();
    return true;
  }
  *bytes = absl::string_view(at_, static_cast<size_t>(size));
  at_ += size;
  return true;
}

bool RecordReader::ReadBody(const char* end, Record* record) {
  if (at_ == end) return false;
  ++at_;  // attributes: none are in use
  int64_t timestamp_delta = 0;
  int32_t offset_delta = 0;
  at_ = ParseVarlong(at_, end, &timestamp_delta);
  if (at_ == nullptr) return false;
  at_ = ParseVarint(at_, end, &offset_delta);
  if (at_ == nullptr) return false;
  record->offset = batch_.base_offset() + offset_delta;
  record->timestamp = batch_.is_log_append_time()
                          ? batch_.max_timestamp()
                          // Unsigned: a malformed delta wraps instead of being undefined.
                          : static_cast<int64_t>(static_cast<uint64_t>(batch_.base_timestamp()) +
                                                 static_cast<uint64_t>(timestamp_delta));
  if (!ReadBytes(end, &record->key) || !ReadBytes(end, &record->value)) return false;
  int32_t header_count = 0;
  at_ = ParseVarint(at_, end, &header_count);
  // A header takes two bytes at least.
  if (at_ == nullptr || header_count < 0 || header_count > (end - at_) / 2) return false;
  record->headers.clear();
  record->headers.reserve(static_cast<size_t>(header_count));
  for (int32_t i = 0; i < header_count; ++i) {
    std::optional<absl::string_view> key;
    RecordHeader header;
    if (!ReadBytes(end, &key) || !key.has_value() || !ReadBytes(end, &header.value)) return false;
    header.key = *key;
    record->headers.push_back(header);
  }
  return at_ == end;
}

bool RecordReader::Next(Record* record) {
  if (!ok_) return false;
  if (read_count_ == batch_.record_count()) return at_ == end_ ? false : Fail();
  int32_t length = 0;
  at_ = ParseVarint(at_, end_, &length);
  if (at_ == nullptr || length < 0 || length > end_ - at_) return Fail();
  if (!ReadBody(at_ + length, record)) return Fail();
  ++read_count_;
  return true;
}

}  // namespace gyre
