#include "engine/broker/metadata_record.h"

#include "absl/strings/str_cat.h"
#include "proto/wire/reader.h"

namespace gyre {

absl::StatusOr<MetadataRecordFrame> ParseMetadataRecord(absl::string_view value) {
  wire::Reader reader(value);
  const uint32_t frame_version = reader.ReadUvarint();
  const uint32_t type = reader.ReadUvarint();
  const uint32_t version = reader.ReadUvarint();
  if (!reader.ok()) return absl::InvalidArgumentError("metadata record: truncated frame");
  if (frame_version != kMetadataFrameVersion) {
    return absl::UnimplementedError(
        absl::StrCat("metadata record: frame version ", frame_version, ", only 1 is known"));
  }
  if (type > INT16_MAX || version > INT16_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata record: type ", type, " version ", version));
  }
  return MetadataRecordFrame{static_cast<int16_t>(type), static_cast<int16_t>(version),
                             reader.ReadRaw(reader.remaining())};
}

}  // namespace gyre
