#include "proto/wire/reader.h"

#include <bit>

#include "proto/wire/varint.h"

namespace gyre::wire {

absl::string_view ReadErrorName(ReadError error) {
  switch (error) {
    case ReadError::kNone:
      return "no error";
    case ReadError::kTruncated:
      return "bytes end inside a value";
    case ReadError::kBadVarint:
      return "malformed variable-length integer";
    case ReadError::kBadLength:
      return "impossible length";
    case ReadError::kUnexpectedNull:
      return "null in a field that cannot be null";
    case ReadError::kBadTag:
      return "malformed tagged fields";
    case ReadError::kTooLarge:
      return "message too large to decode";
  }
  return "unknown";
}

void Reader::Fail(ReadError error) {
  if (ok()) error_ = error;
  position_ = end_;
}

double Reader::ReadFloat64() { return std::bit_cast<double>(ReadInteger<uint64_t>()); }

Uuid Reader::ReadUuid() {
  const absl::string_view bytes = ReadRaw(Uuid::kSize);
  if (bytes.empty()) return Uuid::kZero;
  return Uuid{.hi = LoadBigEndian<uint64_t>(bytes.data()),
              .lo = LoadBigEndian<uint64_t>(bytes.data() + 8)};
}

uint32_t Reader::ReadUvarint() {
  uint32_t value = 0;
  const char* next = ParseUvarint(position_, end_, &value);
  if (ABSL_PREDICT_FALSE(next == nullptr)) {
    Fail(remaining() < kMaxVarintSize ? ReadError::kTruncated : ReadError::kBadVarint);
    return 0;
  }
  position_ = next;
  return value;
}

uint64_t Reader::ReadUvarlong() {
  uint64_t value = 0;
  const char* next = ParseUvarint(position_, end_, &value);
  if (ABSL_PREDICT_FALSE(next == nullptr)) {
    Fail(remaining() < kMaxVarlongSize ? ReadError::kTruncated : ReadError::kBadVarint);
    return 0;
  }
  position_ = next;
  return value;
}

int32_t Reader::ReadVarint() { return ZigZagDecode(ReadUvarint()); }
int64_t Reader::ReadVarlong() { return ZigZagDecode(ReadUvarlong()); }

absl::string_view Reader::ReadRaw(size_t size) {
  if (ABSL_PREDICT_FALSE(size > remaining())) {
    Fail(ReadError::kTruncated);
    return {};
  }
  const absl::string_view bytes(position_, size);
  position_ += size;
  return bytes;
}

int64_t Reader::ReadStringLength(bool flexible) {
  const int64_t length = flexible ? int64_t{ReadUvarint()} - 1 : int64_t{ReadInt16()};
  if (!ok()) return kFailed;
  if (length < kNull || length > static_cast<int64_t>(kMaxStringSize)) {
    Fail(ReadError::kBadLength);
    return kFailed;
  }
  return length;
}

int64_t Reader::ReadLength(bool flexible) {
  const int64_t length = flexible ? int64_t{ReadUvarint()} - 1 : int64_t{ReadInt32()};
  if (!ok()) return kFailed;
  if (length < kNull) {
    Fail(ReadError::kBadLength);
    return kFailed;
  }
  return length;
}

std::optional<absl::string_view> Reader::ReadSpan(int64_t length, bool null_allowed) {
  if (length == kFailed) return std::nullopt;
  if (length == kNull) {
    if (!null_allowed) Fail(ReadError::kUnexpectedNull);
    return std::nullopt;
  }
  const absl::string_view bytes = ReadRaw(static_cast<size_t>(length));
  if (!ok()) return std::nullopt;
  return bytes;
}

absl::string_view Reader::ReadString(bool flexible) {
  return ReadSpan(ReadStringLength(flexible), false).value_or(absl::string_view());
}

absl::string_view Reader::ReadBytes(bool flexible) {
  return ReadSpan(ReadLength(flexible), false).value_or(absl::string_view());
}

std::optional<absl::string_view> Reader::ReadNullableString(bool flexible, bool null_allowed) {
  return ReadSpan(ReadStringLength(flexible), null_allowed);
}

std::optional<absl::string_view> Reader::ReadNullableBytes(bool flexible, bool null_allowed) {
  return ReadSpan(ReadLength(flexible), null_allowed);
}

RecordsView Reader::ReadRecords(bool flexible, bool null_allowed) {
  const std::optional<absl::string_view> bytes = ReadSpan(ReadLength(flexible), null_allowed);
  return bytes.has_value() ? RecordsView(*bytes) : RecordsView::Null();
}

size_t Reader::ReadCount(bool flexible, size_t min_wire_size, size_t memory_size) {
  return ReadNullableCount(flexible, min_wire_size, memory_size, false).value_or(0);
}

std::optional<size_t> Reader::ReadNullableCount(bool flexible, size_t min_wire_size,
                                                size_t memory_size, bool null_allowed) {
  const int64_t length = ReadLength(flexible);
  if (length == kFailed) return std::nullopt;
  if (length == kNull) {
    if (!null_allowed) Fail(ReadError::kUnexpectedNull);
    return std::nullopt;
  }
  const size_t count = static_cast<size_t>(length);
  if (count > remaining() / min_wire_size) {
    Fail(ReadError::kTruncated);
    return std::nullopt;
  }
  if (count > allocation_left_ / memory_size) {
    Fail(ReadError::kTooLarge);
    return std::nullopt;
  }
  allocation_left_ -= count * memory_size;
  return count;
}

bool Reader::ReadPresence(bool tagged) {
  return tagged ? ReadUvarint() != 0 : ReadInt8() >= 0 && ok();
}

void Reader::ReadTaggedFields(TaggedFields& fields) {
  TagReader tags(*this);
  while (tags.Next()) fields.Add(tags.tag(), tags.TakeValue());
}

// A field takes two bytes at least: its tag and its size.
TagReader::TagReader(Reader& reader)
    : reader_(reader), outer_end_(reader.end_), left_(static_cast<uint32_t>(0)) {
  const uint32_t count = reader.ReadUvarint();
  if (count > reader.remaining() / 2) {
    reader.Fail(ReadError::kTruncated);
  } else {
    left_ = count;
  }
}

bool TagReader::Next() {
  if (!reader_.ok()) return false;
  if (reader_.remaining() != 0 && !first_) {
    reader_.Fail(ReadError::kBadTag);
    return false;
  }
  reader_.end_ = outer_end_;
  if (left_ == 0) return false;
  --left_;
  const uint32_t tag = reader_.ReadUvarint();
  const uint32_t size = reader_.ReadUvarint();
  if (!reader_.ok()) return false;
  if (!first_ && tag <= tag_) {
    reader_.Fail(ReadError::kBadTag);
    return false;
  }
  if (size > reader_.remaining()) {
    reader_.Fail(ReadError::kTruncated);
    return false;
  }
  first_ = false;
  tag_ = tag;
  reader_.end_ = reader_.position_ + size;
  return true;
}

}  // namespace gyre::wire
