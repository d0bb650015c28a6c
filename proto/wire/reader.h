// Reads the primitive types of the protocol from bytes that a peer or a disk gave us.
//
// The first failure sticks: from then on every read gives zero or empty and nothing is
// consumed, so a message is checked once, at its end. Views point into the bytes.
//
// `flexible` chooses the length encoding of strings, bytes and arrays: compact (an
// unsigned varint of length + 1, 0 for null) or classic (int16 for strings, int32
// otherwise, -1 for null).
//
// Threads: owner any one.
// Borrows: the bytes.
// Invariant: nothing is allocated for a count before count * minimal element size is
// known to lie within the remaining bytes.
#ifndef GYRE_PROTO_WIRE_READER_H_
#define GYRE_PROTO_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "engine/base/endian.h"
#include "engine/base/uuid.h"
#include "proto/wire/error_code.h"
#include "proto/wire/records_view.h"
#include "proto/wire/tagged_fields.h"

namespace gyre::wire {

enum class ReadError : uint8_t {
  kNone,
  kTruncated,       // the bytes end inside a value
  kBadVarint,       // too long, or beyond its width
  kBadLength,       // negative, or longer than the type allows
  kUnexpectedNull,  // null where this version has none
  kBadTag,          // tags not ascending, or a value that does not fill its size
  kTooLarge,        // the decoded arrays would pass the allocation limit
};

absl::string_view ReadErrorName(ReadError error);

class Reader {
 public:
  // The longest string of the protocol, in either encoding.
  static constexpr size_t kMaxStringSize = INT16_MAX;

  explicit Reader(absl::string_view bytes)
      : position_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool ok() const { return error_ == ReadError::kNone; }
  ReadError error() const { return error_; }
  size_t remaining() const { return static_cast<size_t>(end_ - position_); }

  // Bounds the memory of all arrays decoded from now on; unlimited otherwise. A byte on
  // the wire can become dozens in memory: untrusted peers deserve a limit.
  void set_allocation_limit(size_t bytes) { allocation_left_ = bytes; }

  // Fails the reader; of several failures the first is kept.
  void Fail(ReadError error);

  bool ReadBool() { return ReadInteger<uint8_t>() != 0; }
  int8_t ReadInt8() { return ReadInteger<int8_t>(); }
  int16_t ReadInt16() { return ReadInteger<int16_t>(); }
  uint16_t ReadUint16() { return ReadInteger<uint16_t>(); }
  int32_t ReadInt32() { return ReadInteger<int32_t>(); }
  uint32_t ReadUint32() { return ReadInteger<uint32_t>(); }
  int64_t ReadInt64() { return ReadInteger<int64_t>(); }
  double ReadFloat64();
  Uuid ReadUuid();
  ErrorCode ReadErrorCode() { return static_cast<ErrorCode>(ReadInt16()); }

  uint32_t ReadUvarint();
  uint64_t ReadUvarlong();
  int32_t ReadVarint();   // zig-zag
  int64_t ReadVarlong();  // zig-zag

  // The next `size` bytes as they are.
  absl::string_view ReadRaw(size_t size);

  absl::string_view ReadString(bool flexible);
  absl::string_view ReadBytes(bool flexible);

  // Null fails the reader where `null_allowed` is false.
  std::optional<absl::string_view> ReadNullableString(bool flexible, bool null_allowed = true);
  std::optional<absl::string_view> ReadNullableBytes(bool flexible, bool null_allowed = true);
  RecordsView ReadRecords(bool flexible, bool null_allowed);

  // The element count of an array whose elements take at least `min_wire_size` (> 0)
  // bytes here and `memory_size` bytes decoded. 0 after a failure.
  size_t ReadCount(bool flexible, size_t min_wire_size, size_t memory_size);

  // The same for an array that may be null: nullopt for null and after a failure.
  std::optional<size_t> ReadNullableCount(bool flexible, size_t min_wire_size, size_t memory_size,
                                          bool null_allowed = true);

  // Whether a nullable struct follows: an int8 that is 1 (-1 if not) for an ordinary
  // field, an unsigned varint that is 1 (0 if not) inside a tagged field. Other numbers
  // go by their sign, as Kafka reads them. False after a failure.
  bool ReadPresence(bool tagged);

  // A whole block of tagged fields, none of which is known.
  void ReadTaggedFields(TaggedFields& fields);

 private:
  friend class TagReader;

  template <typename T>
  T ReadInteger() {
    if (ABSL_PREDICT_FALSE(remaining() < sizeof(T))) {
      Fail(ReadError::kTruncated);
      return 0;
    }
    const T value = LoadBigEndian<T>(position_);
    position_ += sizeof(T);
    return value;
  }

  // A length or count in one of the two encodings: -1 for null, kFailed after a failure.
  static constexpr int64_t kNull = -1;
  static constexpr int64_t kFailed = -2;
  int64_t ReadStringLength(bool flexible);
  int64_t ReadLength(bool flexible);
  std::optional<absl::string_view> ReadSpan(int64_t length, bool null_allowed);

  const char* position_;
  const char* end_;
  size_t allocation_left_ = SIZE_MAX;
  ReadError error_ = ReadError::kNone;
};

// Walks the block of tagged fields that ends a struct in flexible versions:
//
//   TagReader tags(reader);
//   while (tags.Next()) {
//     if (tags.tag() == 0) epoch = reader.ReadInt32();
//     else unknown.Add(tags.tag(), tags.TakeValue());
//   }
//
// Inside the loop the reader ends where the field ends; a value that is left partly
// unread is malformed, as is a tag that is not above the one before.
class TagReader {
 public:
  // Reads the count of fields.
  explicit TagReader(Reader& reader);
  TagReader(const TagReader&) = delete;
  TagReader& operator=(const TagReader&) = delete;

  // Goes to the next field. False at the end of the block and after a failure.
  bool Next();

  uint32_t tag() const { return tag_; }

  // The field's bytes, consumed.
  absl::string_view TakeValue() { return reader_.ReadRaw(reader_.remaining()); }

 private:
  Reader& reader_;
  const char* const outer_end_;
  uint32_t left_;
  uint32_t tag_ = 0;
  bool first_ = true;
};

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_READER_H_
