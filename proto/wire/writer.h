// Writes the primitive types of the protocol into a buffer that the caller has sized.
//
// Messages tell their size first (EncodedSize), so a reply is one allocation of the right
// size and no copy. Writing past the buffer is a bug of ours and stops the process, in
// every build.
//
// Records may lie outside (RecordsView::External): then only their length is written, and
// the place where they belong is noted as a hole. A reply is sent as
//   buffer[0, holes[0].position), holes[0].size bytes of a file, buffer[.. holes[1].position) ...
//
// Threads: owner any one.
// Borrows: the buffer.
// Invariant: size() <= capacity; positions of holes ascend.
#ifndef GYRE_PROTO_WIRE_WRITER_H_
#define GYRE_PROTO_WIRE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "engine/base/endian.h"
#include "engine/base/uuid.h"
#include "proto/wire/error_code.h"
#include "proto/wire/records_view.h"
#include "proto/wire/varint.h"

namespace gyre::wire {

class Writer {
 public:
  // A run of bytes that belongs between buffer[position - 1] and buffer[position].
  struct Hole {
    size_t position;
    size_t size;

    bool operator==(const Hole&) const = default;
  };

  Writer(char* buffer, size_t capacity)
      : begin_(buffer), position_(buffer), end_(buffer + capacity) {}

  // Bytes written so far, without the holes.
  size_t size() const { return static_cast<size_t>(position_ - begin_); }
  absl::string_view written() const { return absl::string_view(begin_, size()); }

  const std::vector<Hole>& holes() const { return holes_; }
  size_t external_size() const { return external_size_; }

  void WriteBool(bool value) { WriteInteger<uint8_t>(value ? 1 : 0); }
  void WriteInt8(int8_t value) { WriteInteger(value); }
  void WriteInt16(int16_t value) { WriteInteger(value); }
  void WriteUint16(uint16_t value) { WriteInteger(value); }
  void WriteInt32(int32_t value) { WriteInteger(value); }
  void WriteUint32(uint32_t value) { WriteInteger(value); }
  void WriteInt64(int64_t value) { WriteInteger(value); }
  void WriteFloat64(double value);
  void WriteUuid(const Uuid& value);
  void WriteErrorCode(ErrorCode value) { WriteInt16(static_cast<int16_t>(value)); }

  void WriteUvarint(uint64_t value) {
    char* to = Claim(UvarintSize(value));
    PutUvarint(to, value);
  }
  void WriteVarint(int32_t value) { WriteUvarint(ZigZagEncode(value)); }
  void WriteVarlong(int64_t value) { WriteUvarint(ZigZagEncode(value)); }

  void WriteRaw(absl::string_view bytes) {
    char* to = Claim(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }

  // A string above the protocol's 32767 bytes is cut, at a character.
  void WriteString(absl::string_view value, bool flexible);
  void WriteBytes(absl::string_view value, bool flexible);

  // Null is written as empty where `null_allowed` is false: the version has no null.
  void WriteNullableString(const std::optional<absl::string_view>& value, bool flexible,
                           bool null_allowed = true);
  void WriteNullableBytes(const std::optional<absl::string_view>& value, bool flexible,
                          bool null_allowed = true);
  void WriteRecords(const RecordsView& value, bool flexible, bool null_allowed);

  // The element count of an array.
  void WriteCount(size_t count, bool flexible);
  // The length or count of something that is null.
  void WriteNullString(bool flexible);
  void WriteNull(bool flexible);

  // The prefix of a nullable struct (see Reader::ReadPresence).
  void WritePresence(bool present, bool tagged);

  // What precedes the value of a tagged field.
  void WriteTag(uint32_t tag, size_t value_size) {
    WriteUvarint(tag);
    WriteUvarint(value_size);
  }

  // Overwrites four bytes written before, at `position`.
  void PatchInt32(size_t position, int32_t value);

 private:
  template <typename T>
  void WriteInteger(T value) {
    StoreBigEndian<T>(Claim(sizeof(T)), value);
  }

  char* Claim(size_t size) {
    if (ABSL_PREDICT_FALSE(size > static_cast<size_t>(end_ - position_))) Overrun(size);
    char* to = position_;
    position_ += size;
    return to;
  }

  [[noreturn]] void Overrun(size_t size) const;

  char* const begin_;
  char* position_;
  char* const end_;
  size_t external_size_ = 0;
  std::vector<Hole> holes_;
};

// The part of `value` that WriteString writes.
absl::string_view ClampString(absl::string_view value);

// Sizes of what the Writer writes.
size_t StringSize(absl::string_view value, bool flexible);
size_t StringSize(const std::optional<absl::string_view>& value, bool flexible);
size_t BytesSize(absl::string_view value, bool flexible);
size_t BytesSize(const std::optional<absl::string_view>& value, bool flexible);

// Without the bytes of external records: those are not written.
size_t RecordsSize(const RecordsView& value, bool flexible);

inline size_t CountSize(size_t count, bool flexible) {
  return flexible ? UvarintSize(count + 1) : 4;
}

// A tagged field: its tag, its size and its value.
inline size_t TaggedSize(uint32_t tag, size_t value_size) {
  return UvarintSize(tag) + UvarintSize(value_size) + value_size;
}

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_WRITER_H_
