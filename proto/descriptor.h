// The schemas as data: for tests and tools that handle messages without knowing them.
// Nothing on a server's path uses this.
#ifndef GYRE_PROTO_DESCRIPTOR_H_
#define GYRE_PROTO_DESCRIPTOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/wire/reader.h"

namespace gyre::proto {

enum class FieldType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kFloat64,
  kUuid,
  kError,
  kString,
  kBytes,
  kRecords,
  kStruct,
};

struct StructDescriptor;

// One field: of `type`, or an array of it.
struct FieldDescriptor {
  absl::string_view name;
  FieldType type;
  bool array;
  int16_t min_version, max_version;
  int16_t null_min, null_max;  // empty (min > max) if it is never null
  int32_t tag;                 // -1 for an ordinary field
  bool classic;                // not compact in flexible versions either
  bool default_null;
  int64_t default_number;           // numbers and bools
  const StructDescriptor* element;  // structs

  bool InVersion(int16_t version) const { return version >= min_version && version <= max_version; }
  bool NullableIn(int16_t version) const { return version >= null_min && version <= null_max; }
};

struct StructDescriptor {
  absl::string_view name;
  absl::Span<const FieldDescriptor> fields;  // in wire order
};

// What became of bytes that went through a message's codec.
struct RoundTripResult {
  // Decode accepted the bytes, and read so many of them.
  bool decoded = false;
  wire::ReadError error = wire::ReadError::kNone;
  size_t consumed = 0;

  // The message encoded again, into a buffer of exactly EncodedSize bytes.
  std::string encoded;
  // Encode filled that buffer.
  bool size_exact = false;
  // Decoding `encoded` gave an equal message (NaN equals nothing), and encoding that one
  // the same bytes.
  bool equal = false;
  bool stable = false;
};

struct MessageDescriptor {
  absl::string_view name;
  int16_t min_version, max_version, first_flexible_version;
  const StructDescriptor* root;
  RoundTripResult (*round_trip)(absl::string_view bytes, int16_t version);

  bool FlexibleIn(int16_t version) const { return version >= first_flexible_version; }
};

}  // namespace gyre::proto

#endif  // GYRE_PROTO_DESCRIPTOR_H_
