#include "engine/storage/log_recovery.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

namespace gyre {
namespace {

constexpr int64_t kWindowBytes = 1 << 20;

// A window that moves forward over the file.
class Window {
 public:
  Window(const File& file, int64_t file_bytes)
      : file_(file), file_bytes_(file_bytes), bytes_(new char[kWindowBytes]) {}

  // At least `size_bytes` (at most kWindowBytes) at `position`; they exist.
  absl::StatusOr<const char*> At(int64_t position, int64_t size_bytes) {
    if (position < start_ || position + size_bytes > start_ + held_bytes_) {
      const int64_t wanted = std::min(kWindowBytes, file_bytes_ - position);
      held_bytes_ = 0;
      GYRE_RETURN_IF_ERROR(file_.ReadExactly(position, bytes_.get(), static_cast<size_t>(wanted)));
      start_ = position;
      held_bytes_ = wanted;
    }
    return bytes_.get() + (position - start_);
  }

 private:
  const File& file_;
  const int64_t file_bytes_;
  const std::unique_ptr<char[]> bytes_;
  int64_t start_ = 0;
  int64_t held_bytes_ = 0;
};

// CRC of [position, end), window by window.
absl::StatusOr<uint32_t> CrcOf(Window& window, int64_t position, int64_t end) {
  uint32_t crc = 0;
  while (position < end) {
    const int64_t step = std::min(kWindowBytes, end - position);
    GYRE_ASSIGN_OR_RETURN(const char* bytes, window.At(position, step));
    crc = ExtendCrc32c(crc, bytes, static_cast<size_t>(step));
    position += step;
  }
  return crc;
}

}  // namespace

absl::StatusOr<SegmentScan> ScanAndIndexSegment(LogSegment& segment, int32_t index_interval_bytes,
                                                LeaderEpochCache& epochs) {
  const File& file = *segment.file();
  SegmentScan scan;
  GYRE_ASSIGN_OR_RETURN(scan.file_bytes, file.SizeBytes());
  scan.end_offset = segment.base_offset();
  Window window(file, scan.file_bytes);
  const auto damaged = [&](absl::string_view why) {
    scan.damage = absl::StrCat(file.path(), " at position ", scan.valid_bytes, ": ", why);
    return scan;
  };
  while (scan.valid_bytes < scan.file_bytes) {
    const int64_t position = scan.valid_bytes;
    const int64_t left_bytes = scan.file_bytes - position;
    if (left_bytes < static_cast<int64_t>(batch::kHeaderBytes)) {
      return damaged("shorter than a batch header");
    }
    char header[batch::kHeaderBytes];
    GYRE_ASSIGN_OR_RETURN(const char* bytes, window.At(position, sizeof header));
    std::copy_n(bytes, sizeof header, header);
    // Judges the header alone: the size is compared with the file below.
    const BatchShape shape = CheckBatchShape(absl::string_view(header, sizeof header));
    if (shape != BatchShape::kOk && shape != BatchShape::kIncomplete) {
      return damaged(BatchShapeName(shape));
    }
    const RecordBatchView view(header);
    if (view.size_bytes() > left_bytes) return damaged("cut short");
    if (view.base_offset() < scan.end_offset) return damaged("its offset does not rise");
    if (view.last_offset_delta() < 0 || view.base_offset() - segment.base_offset() > INT32_MAX ||
        view.last_offset() - segment.base_offset() > INT32_MAX) {
      return damaged("its offset is out of the segment's range");
    }
    GYRE_ASSIGN_OR_RETURN(const uint32_t crc,
                          CrcOf(window, position + static_cast<int64_t>(batch::kAttributesAt),
                                position + view.size_bytes()));
    if (crc != view.crc()) return damaged("CRC does not match");
    segment.IndexBatch(position, view, index_interval_bytes);
    epochs.Assign(view.leader_epoch(), view.base_offset());
    scan.valid_bytes += view.size_bytes();
    scan.end_offset = view.next_offset();
  }
  return scan;
}

}  // namespace gyre
