#include "proto/wire/writer.h"

#include <bit>

#include "glog/logging.h"
#include "proto/wire/reader.h"

namespace gyre::wire {

void Writer::Overrun(size_t size) const {
  LOG(FATAL) << "wire::Writer: " << size << " bytes at " << this->size()
             << " pass the end of a buffer of " << (end_ - begin_);
}

void Writer::WriteFloat64(double value) { WriteInteger(std::bit_cast<uint64_t>(value)); }

void Writer::WriteUuid(const Uuid& value) {
  char* to = Claim(Uuid::kSize);
  StoreBigEndian(to, value.hi);
  StoreBigEndian(to + 8, value.lo);
}

void Writer::WriteString(absl::string_view value, bool flexible) {
  value = ClampString(value);
  if (flexible) {
    WriteUvarint(value.size() + 1);
  } else {
    WriteInt16(static_cast<int16_t>(value.size()));
  }
  WriteRaw(value);
}

void Writer::WriteBytes(absl::string_view value, bool flexible) {
  WriteCount(value.size(), flexible);
  WriteRaw(value);
}

void Writer::WriteNullableString(const std::optional<absl::string_view>& value, bool flexible,
                                 bool null_allowed) {
  if (value.has_value() || !null_allowed) {
    WriteString(value.value_or(absl::string_view()), flexible);
  } else {
    WriteNullString(flexible);
  }
}

void Writer::WriteNullableBytes(const std::optional<absl::string_view>& value, bool flexible,
                                bool null_allowed) {
  if (value.has_value() || !null_allowed) {
    WriteBytes(value.value_or(absl::string_view()), flexible);
  } else {
    WriteNull(flexible);
  }
}

void Writer::WriteRecords(const RecordsView& value, bool flexible, bool null_allowed) {
  if (value.is_null() && null_allowed) {
    WriteNull(flexible);
    return;
  }
  WriteCount(value.size(), flexible);
  if (value.is_external()) {
    if (value.empty()) return;
    holes_.push_back({.position = size(), .size = value.size()});
    external_size_ += value.size();
  } else {
    WriteRaw(value.bytes());
  }
}

void Writer::WriteCount(size_t count, bool flexible) {
  DCHECK_LE(count, static_cast<size_t>(INT32_MAX));
  if (flexible) {
    WriteUvarint(count + 1);
  } else {
    WriteInt32(static_cast<int32_t>(count));
  }
}

void Writer::WriteNullString(bool flexible) {
  if (flexible) {
    WriteUvarint(0);
  } else {
    WriteInt16(-1);
  }
}

void Writer::WriteNull(bool flexible) {
  if (flexible) {
    WriteUvarint(0);
  } else {
    WriteInt32(-1);
  }
}

void Writer::WritePresence(bool present, bool tagged) {
  if (tagged) {
    WriteUvarint(present ? 1 : 0);
  } else {
    WriteInt8(present ? 1 : -1);
  }
}

void Writer::PatchInt32(size_t position, int32_t value) {
  DCHECK_LE(position + sizeof(value), size());
  StoreBigEndian(begin_ + position, value);
}

// Continuation bytes of UTF-8 are 10xxxxxx: the cut moves back to the start of a character.
absl::string_view ClampString(absl::string_view value) {
  if (ABSL_PREDICT_TRUE(value.size() <= Reader::kMaxStringSize)) return value;
  size_t size = Reader::kMaxStringSize;
  while (size > Reader::kMaxStringSize - 4 && (static_cast<uint8_t>(value[size]) & 0xc0) == 0x80) {
    --size;
  }
  return value.substr(0, size);
}

size_t StringSize(absl::string_view value, bool flexible) {
  const size_t size = ClampString(value).size();
  return (flexible ? UvarintSize(size + 1) : 2) + size;
}

size_t StringSize(const std::optional<absl::string_view>& value, bool flexible) {
  return StringSize(value.value_or(absl::string_view()), flexible);
}

size_t BytesSize(absl::string_view value, bool flexible) {
  return CountSize(value.size(), flexible) + value.size();
}

size_t BytesSize(const std::optional<absl::string_view>& value, bool flexible) {
  return BytesSize(value.value_or(absl::string_view()), flexible);
}

size_t RecordsSize(const RecordsView& value, bool flexible) {
  return CountSize(value.size(), flexible) + value.bytes().size();
}

}  // namespace gyre::wire
