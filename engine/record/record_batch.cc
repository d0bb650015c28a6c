#include "engine/record/record_batch.h"

#include "engine/base/crc32c.h"

namespace gyre {

BatchShape CheckBatchShape(absl::string_view bytes) {
  if (bytes.size() < batch::kMinPrefixBytes) return BatchShape::kTooShort;
  const RecordBatchView view(bytes);
  const int8_t magic = view.magic();
  if (magic == 0 || magic == 1) return BatchShape::kOldMagic;
  if (magic != 2) return BatchShape::kBadMagic;
  if (view.length() < static_cast<int32_t>(batch::kMinLength)) return BatchShape::kTooShort;
  if (bytes.size() < batch::kHeaderBytes) return BatchShape::kTooShort;
  if (view.size_bytes() > static_cast<int64_t>(bytes.size())) return BatchShape::kIncomplete;
  if (view.base_offset() < 0 || view.last_offset_delta() < 0 || view.record_count() < 0 ||
      view.base_offset() > INT64_MAX - view.last_offset_delta() - 1) {
    return BatchShape::kBadCounts;
  }
  return BatchShape::kOk;
}

absl::string_view BatchShapeName(BatchShape shape) {
  switch (shape) {
    case BatchShape::kOk:
      return "ok";
    case BatchShape::kTooShort:
      return "shorter than a batch header";
    case BatchShape::kIncomplete:
      return "cut short";
    case BatchShape::kOldMagic:
      return "message format older than magic 2";
    case BatchShape::kBadMagic:
      return "unknown magic";
    case BatchShape::kBadCounts:
      return "negative offset, delta or count";
  }
  return "unknown";
}

uint32_t ComputeBatchCrc(absl::string_view bytes) {
  return Crc32c(bytes.substr(batch::kAttributesAt));
}

}  // namespace gyre
