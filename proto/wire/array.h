// Decoding and encoding of arrays and nullable structs, for generated code.
//
// Elements are primitive (int8 .. int64, uuid, string) or structs with the members
//   bool Decode(Reader&, int16_t version);
//   size_t EncodedSize(int16_t version) const;
//   void Encode(Writer&, int16_t version) const;
#ifndef GYRE_PROTO_WIRE_ARRAY_H_
#define GYRE_PROTO_WIRE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/uuid.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

namespace gyre::wire {

inline void DecodeElement(Reader& reader, int8_t& to, bool) { to = reader.ReadInt8(); }
inline void DecodeElement(Reader& reader, int16_t& to, bool) { to = reader.ReadInt16(); }
inline void DecodeElement(Reader& reader, int32_t& to, bool) { to = reader.ReadInt32(); }
inline void DecodeElement(Reader& reader, int64_t& to, bool) { to = reader.ReadInt64(); }
inline void DecodeElement(Reader& reader, Uuid& to, bool) { to = reader.ReadUuid(); }
inline void DecodeElement(Reader& reader, absl::string_view& to, bool flexible) {
  to = reader.ReadString(flexible);
}

inline void EncodeElement(Writer& writer, int8_t value, bool) { writer.WriteInt8(value); }
inline void EncodeElement(Writer& writer, int16_t value, bool) { writer.WriteInt16(value); }
inline void EncodeElement(Writer& writer, int32_t value, bool) { writer.WriteInt32(value); }
inline void EncodeElement(Writer& writer, int64_t value, bool) { writer.WriteInt64(value); }
inline void EncodeElement(Writer& writer, const Uuid& value, bool) { writer.WriteUuid(value); }
inline void EncodeElement(Writer& writer, absl::string_view value, bool flexible) {
  writer.WriteString(value, flexible);
}

// The smallest encoding of a primitive element.
template <typename T>
constexpr size_t MinElementSize(bool flexible) {
  return sizeof(T);
}
template <>
constexpr size_t MinElementSize<absl::string_view>(bool flexible) {
  return flexible ? 1 : 2;
}

// Reads `count` elements. The vector may be reserved for all of them: the bytes for
// `count` minimal elements are there.
template <typename T>
bool DecodeElements(Reader& reader, size_t count, std::vector<T>& to, bool flexible) {
  to.resize(count);
  for (T& element : to) DecodeElement(reader, element, flexible);
  return reader.ok();
}
template <typename T>
bool DecodeStructs(Reader& reader, size_t count, std::vector<T>& to, int16_t version) {
  to.clear();
  to.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (!to.emplace_back().Decode(reader, version)) return false;
  }
  return reader.ok();
}

// Arrays of primitives.
template <typename T>
bool DecodeArray(Reader& reader, std::vector<T>& to, bool flexible) {
  const size_t count = reader.ReadCount(flexible, MinElementSize<T>(flexible), sizeof(T));
  return DecodeElements(reader, count, to, flexible);
}
template <typename T>
bool DecodeArray(Reader& reader, std::optional<std::vector<T>>& to, bool flexible,
                 bool null_allowed) {
  const std::optional<size_t> count =
      reader.ReadNullableCount(flexible, MinElementSize<T>(flexible), sizeof(T), null_allowed);
  if (!count.has_value()) {
    to.reset();
    return reader.ok();
  }
  return DecodeElements(reader, *count, to.emplace(), flexible);
}

template <typename T>
size_t ArraySize(const std::vector<T>& array, bool flexible) {
  return CountSize(array.size(), flexible) + array.size() * sizeof(T);
}
inline size_t ArraySize(const std::vector<absl::string_view>& array, bool flexible) {
  size_t size = CountSize(array.size(), flexible);
  for (absl::string_view element : array) size += StringSize(element, flexible);
  return size;
}
template <typename T>
size_t ArraySize(const std::optional<std::vector<T>>& array, bool flexible) {
  return array.has_value() ? ArraySize(*array, flexible) : CountSize(0, flexible);
}

template <typename T>
void EncodeArray(Writer& writer, const std::vector<T>& array, bool flexible) {
  writer.WriteCount(array.size(), flexible);
  for (const T& element : array) EncodeElement(writer, element, flexible);
}
template <typename T>
void EncodeArray(Writer& writer, const std::optional<std::vector<T>>& array, bool flexible,
                 bool null_allowed) {
  if (array.has_value()) {
    EncodeArray(writer, *array, flexible);
  } else if (null_allowed) {
    writer.WriteNull(flexible);
  } else {
    writer.WriteCount(0, flexible);
  }
}

// Arrays of structs. `min_wire_size` is the smallest encoding of an element in `version`.
template <typename T>
bool DecodeStructArray(Reader& reader, std::vector<T>& to, bool flexible, int16_t version,
                       size_t min_wire_size) {
  const size_t count = reader.ReadCount(flexible, min_wire_size, sizeof(T));
  return DecodeStructs(reader, count, to, version);
}
template <typename T>
bool DecodeStructArray(Reader& reader, std::optional<std::vector<T>>& to, bool flexible,
                       int16_t version, size_t min_wire_size, bool null_allowed) {
  const std::optional<size_t> count =
      reader.ReadNullableCount(flexible, min_wire_size, sizeof(T), null_allowed);
  if (!count.has_value()) {
    to.reset();
    return reader.ok();
  }
  return DecodeStructs(reader, *count, to.emplace(), version);
}

template <typename T>
size_t StructArraySize(const std::vector<T>& array, bool flexible, int16_t version) {
  size_t size = CountSize(array.size(), flexible);
  for (const T& element : array) size += element.EncodedSize(version);
  return size;
}
template <typename T>
size_t StructArraySize(const std::optional<std::vector<T>>& array, bool flexible, int16_t version) {
  return array.has_value() ? StructArraySize(*array, flexible, version) : CountSize(0, flexible);
}

template <typename T>
void EncodeStructArray(Writer& writer, const std::vector<T>& array, bool flexible,
                       int16_t version) {
  writer.WriteCount(array.size(), flexible);
  for (const T& element : array) element.Encode(writer, version);
}
template <typename T>
void EncodeStructArray(Writer& writer, const std::optional<std::vector<T>>& array, bool flexible,
                       int16_t version, bool null_allowed) {
  if (array.has_value()) {
    EncodeStructArray(writer, *array, flexible, version);
  } else if (null_allowed) {
    writer.WriteNull(flexible);
  } else {
    writer.WriteCount(0, flexible);
  }
}

// Nullable structs; `tagged` chooses the prefix.
template <typename T>
bool DecodeNullable(Reader& reader, std::optional<T>& to, int16_t version, bool tagged) {
  if (reader.ReadPresence(tagged)) return to.emplace().Decode(reader, version);
  to.reset();
  return reader.ok();
}
template <typename T>
size_t NullableSize(const std::optional<T>& value, int16_t version) {
  return 1 + (value.has_value() ? value->EncodedSize(version) : 0);
}
template <typename T>
void EncodeNullable(Writer& writer, const std::optional<T>& value, int16_t version, bool tagged) {
  writer.WritePresence(value.has_value(), tagged);
  if (value.has_value()) value->Encode(writer, version);
}

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_ARRAY_H_
