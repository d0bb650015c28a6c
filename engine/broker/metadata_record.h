// The frame of one record of the metadata log: uvarint frame version (1),
// uvarint record type, uvarint record version, then the body in the flexible
// encoding; nothing follows it. Key null, no headers.
//
// Threads: any.
#ifndef GYRE_ENGINE_BROKER_METADATA_RECORD_H_
#define GYRE_ENGINE_BROKER_METADATA_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/wire/varint.h"
#include "proto/wire/writer.h"

namespace gyre {

inline constexpr uint32_t kMetadataFrameVersion = 1;

struct MetadataRecordFrame {
  int16_t type = -1;
  int16_t version = -1;
  absl::string_view body;
};

// INVALID_ARGUMENT for a malformed frame, UNIMPLEMENTED for a frame version
// that this program does not know.
absl::StatusOr<MetadataRecordFrame> ParseMetadataRecord(absl::string_view value);

// `Record` is a generated metadata record.
template <typename Record>
std::string EncodeMetadataRecord(const Record& record, int16_t version) {
  const size_t size = wire::UvarintSize(kMetadataFrameVersion) +
                      wire::UvarintSize(Record::kRecordType) + wire::UvarintSize(version) +
                      record.EncodedSize(version);
  std::string value(size, '\0');
  wire::Writer writer(value.data(), value.size());
  writer.WriteUvarint(kMetadataFrameVersion);
  writer.WriteUvarint(Record::kRecordType);
  writer.WriteUvarint(version);
  record.Encode(writer, version);
  return value;
}

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_METADATA_RECORD_H_
