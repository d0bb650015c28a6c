#include "engine/storage/batch_cursor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gyre {

bool BatchCursor::Fill() {
  const int64_t wanted = std::min<int64_t>(sizeof buffer_, end_ - next_position_);
  if (wanted < static_cast<int64_t>(batch::kHeaderBytes)) {
    status_ = absl::DataLossError(absl::StrCat(file_.path(), ": no whole batch at ", next_position_,
                                               ", ", wanted, " bytes left"));
    return false;
  }
  status_ = file_.ReadExactly(next_position_, buffer_, static_cast<size_t>(wanted));
  buffer_position_ = next_position_;
  buffer_bytes_ = status_.ok() ? wanted : 0;
  return status_.ok();
}

bool BatchCursor::Next() {
  if (!status_.ok() || next_position_ >= end_) return false;
  const int64_t in_buffer = next_position_ - buffer_position_;
  if (in_buffer < 0 || in_buffer + static_cast<int64_t>(batch::kHeaderBytes) > buffer_bytes_) {
    if (!Fill()) return false;
  }
  header_ = buffer_ + (next_position_ - buffer_position_);
  position_ = next_position_;
  const RecordBatchView view(header_);
  if (view.magic() != 2 || view.length() < static_cast<int32_t>(batch::kMinLength) ||
      view.last_offset_delta() < 0 || position_ + view.size_bytes() > end_) {
    status_ = absl::DataLossError(
        absl::StrCat(file_.path(), ": no whole batch of magic 2 at ", position_));
    return false;
  }
  next_position_ = position_ + view.size_bytes();
  return true;
}

}  // namespace gyre
