#include "engine/storage/log_segment.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/fs/file_error.h"
#include "engine/storage/batch_cursor.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr size_t kNameDigits = 20;
constexpr absl::string_view kLogSuffix = ".log";
constexpr absl::string_view kIndexSuffix = ".index";
constexpr absl::string_view kTimeIndexSuffix = ".timeindex";

std::string PathOf(const std::string& directory, int64_t base_offset, absl::string_view suffix) {
  return absl::StrCat(directory, "/", LogSegment::FileName(base_offset, suffix));
}

LogSegment::Batch BatchAt(const BatchCursor& cursor) {
  const RecordBatchView header = cursor.header();
  return {cursor.position(), cursor.end_position(), header.base_offset(), header.last_offset(),
          header.max_timestamp()};
}

}  // namespace

std::string LogSegment::FileName(int64_t base_offset, absl::string_view suffix) {
  return absl::StrFormat("%020d%s", base_offset, suffix);
}

std::optional<int64_t> LogSegment::ParseFileName(absl::string_view name, absl::string_view suffix) {
  if (name.size() != kNameDigits + suffix.size() || !absl::EndsWith(name, suffix)) {
    return std::nullopt;
  }
  const absl::string_view digits = name.substr(0, kNameDigits);
  int64_t base_offset = 0;
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }) ||
      !absl::SimpleAtoi(digits, &base_offset)) {
    return std::nullopt;
  }
  return base_offset;
}

absl::StatusOr<LogSegmentRef> LogSegment::Create(FileSystem& file_system,
                                                 const std::string& directory,
                                                 int64_t base_offset) {
  const std::string path = PathOf(directory, base_offset, kLogSuffix);
  GYRE_ASSIGN_OR_RETURN(FileRef file, file_system.Open(path, OpenMode::kCreate));
  GYRE_RETURN_IF_ERROR(file->Truncate(0));
  LogSegmentRef segment(new LogSegment(base_offset, std::move(file)));
  GYRE_RETURN_IF_ERROR(segment->ResetIndexes(file_system, directory));
  segment->Publish({0, base_offset, -1});
  return segment;
}

absl::StatusOr<LogSegmentRef> LogSegment::Open(FileSystem& file_system,
                                               const std::string& directory, int64_t base_offset) {
  GYRE_ASSIGN_OR_RETURN(FileRef file, file_system.Open(PathOf(directory, base_offset, kLogSuffix),
                                                       OpenMode::kReadWrite));
  return LogSegmentRef(new LogSegment(base_offset, std::move(file)));
}

absl::Status LogSegment::RemoveFiles(FileSystem& file_system, const std::string& directory,
                                     int64_t base_offset) {
  // The log goes last: indexes without a log are swept up at the next open.
  for (const absl::string_view suffix : {kIndexSuffix, kTimeIndexSuffix, kLogSuffix}) {
    const absl::Status status = file_system.Remove(PathOf(directory, base_offset, suffix));
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return absl::OkStatus();
}

absl::Status LogSegment::LoadIndexes(FileSystem& file_system, const std::string& directory,
                                     int64_t log_bytes) {
  GYRE_ASSIGN_OR_RETURN(
      FileRef index,
      file_system.Open(PathOf(directory, base_offset_, kIndexSuffix), OpenMode::kReadWrite));
  GYRE_RETURN_IF_ERROR(offset_index_.Load(std::move(index), log_bytes));
  GYRE_ASSIGN_OR_RETURN(
      FileRef time_index,
      file_system.Open(PathOf(directory, base_offset_, kTimeIndexSuffix), OpenMode::kReadWrite));
  GYRE_RETURN_IF_ERROR(time_index_.Load(std::move(time_index)));
  largest_ = time_index_.Last();
  bytes_since_index_entry_ = log_bytes - offset_index_.Last().position;
  return absl::OkStatus();
}

absl::Status LogSegment::ResetIndexes(FileSystem& file_system, const std::string& directory) {
  GYRE_ASSIGN_OR_RETURN(
      FileRef index,
      file_system.Open(PathOf(directory, base_offset_, kIndexSuffix), OpenMode::kCreate));
  GYRE_RETURN_IF_ERROR(offset_index_.Reset(std::move(index)));
  GYRE_ASSIGN_OR_RETURN(
      FileRef time_index,
      file_system.Open(PathOf(directory, base_offset_, kTimeIndexSuffix), OpenMode::kCreate));
  GYRE_RETURN_IF_ERROR(time_index_.Reset(std::move(time_index)));
  largest_ = {-1, base_offset_};
  bytes_since_index_entry_ = 0;
  is_dirty_ = true;
  return absl::OkStatus();
}

LogSegment::Extent LogSegment::extent() const {
  MutexLock lock(mutex_);
  return extent_;
}

void LogSegment::Publish(const Extent& extent) {
  MutexLock lock(mutex_);
  extent_ = extent;
}

absl::Status LogSegment::Write(int64_t position, iovec* parts, int part_count) {
  is_dirty_ = true;
  while (part_count > 0) {
    const IoResult result = file_->WriteVAt(position, parts, part_count);
    if (!result.ok()) return FileError("write", file_->path(), result.error());
    // A device that takes nothing and reports nothing would loop for ever.
    if (result.bytes() == 0) return FileError("write", file_->path(), EIO);
    size_t written = static_cast<size_t>(result.bytes());
    position += result.bytes();
    while (part_count > 0 && written >= parts->iov_len) {
      written -= parts->iov_len;
      ++parts;
      --part_count;
    }
    if (part_count > 0) {
      parts->iov_base = static_cast<char*>(parts->iov_base) + written;
      parts->iov_len -= written;
    }
  }
  return absl::OkStatus();
}

void LogSegment::IndexBatch(int64_t position, const RecordBatchView& batch,
                            int32_t index_interval_bytes) {
  if (batch.max_timestamp() > largest_.timestamp) {
    largest_ = {batch.max_timestamp(), batch.last_offset()};
  }
  if (bytes_since_index_entry_ > index_interval_bytes) {
    offset_index_.Append(batch.last_offset(), position);
    time_index_.MaybeAppend(largest_.timestamp, largest_.offset);
    bytes_since_index_entry_ = 0;
  }
  bytes_since_index_entry_ += batch.size_bytes();
}

absl::Status LogSegment::Seal() {
  if (!is_dirty_) return absl::OkStatus();
  time_index_.MaybeAppend(largest_.timestamp, largest_.offset);
  GYRE_RETURN_IF_ERROR(offset_index_.Flush());
  return time_index_.Flush();
}

absl::Status LogSegment::SyncAll() {
  if (!is_dirty_) return absl::OkStatus();
  GYRE_RETURN_IF_ERROR(file_->Sync());
  GYRE_RETURN_IF_ERROR(offset_index_.Sync());
  GYRE_RETURN_IF_ERROR(time_index_.Sync());
  is_dirty_ = false;
  return absl::OkStatus();
}

absl::StatusOr<LogSegment::Batch> LogSegment::FindBatch(int64_t offset,
                                                        int64_t end_position) const {
  const int64_t start = offset_index_.Lookup(offset).position;
  bool misled = false;
  absl::StatusOr<Batch> found = FindBatchFrom(start, offset, end_position, &misled);
  if (!misled || start == 0) return found;
  // The index is damaged; the log need not be.
  LOG_EVERY_N(WARNING, 1000) << file_->path() << ": the index entry for offset " << offset
                             << " is wrong; searching from the start";
  return FindBatchFrom(0, offset, end_position, &misled);
}

absl::StatusOr<LogSegment::Batch> LogSegment::FindBatchFrom(int64_t start, int64_t offset,
                                                            int64_t end_position,
                                                            bool* misled) const {
  BatchCursor cursor(*file_, start, end_position);
  bool more = cursor.Next();
  *misled = more ? cursor.header().base_offset() > offset : !cursor.status().ok();
  for (; more; more = cursor.Next()) {
    if (cursor.header().last_offset() >= offset) return BatchAt(cursor);
  }
  GYRE_RETURN_IF_ERROR(cursor.status());
  return absl::OutOfRangeError(absl::StrCat(file_->path(), ": no batch holds offset ", offset));
}

absl::StatusOr<int64_t> LogSegment::EndOfBatchesBefore(int64_t from, int64_t limit,
                                                       int64_t end_position,
                                                       int64_t* next_offset) const {
  // The index entry's batch starts at its position, so one ends there as well;
  // but its predecessor's last offset is only known by scanning up to it, so the
  // scan starts one batch after `from` at the latest.
  int64_t end = from;
  const OffsetPosition near = offset_index_.LookupPosition(limit);
  BatchCursor cursor(*file_, std::max(from, near.position), end_position);
  bool has_stepped = false;
  while (cursor.Next()) {
    if (cursor.end_position() > limit) {
      if (!has_stepped) {
        // Nothing after the index entry fits: all batches before it do.
        end = cursor.position();
        if (end > from) *next_offset = cursor.header().base_offset();
      }
      return end;
    }
    has_stepped = true;
    end = cursor.end_position();
    *next_offset = cursor.header().last_offset() + 1;
  }
  GYRE_RETURN_IF_ERROR(cursor.status());
  return end;
}

absl::StatusOr<LogSegment::Batch> LogSegment::FindBatchByTimestamp(int64_t timestamp,
                                                                   int64_t from_offset,
                                                                   int64_t end_position) const {
  // Nothing up to the time index entry's offset is young enough.
  const int64_t start_offset = std::max(from_offset, time_index_.LookupBelow(timestamp).offset);
  BatchCursor cursor(*file_, offset_index_.Lookup(start_offset).position, end_position);
  while (cursor.Next()) {
    const RecordBatchView header = cursor.header();
    if (header.max_timestamp() >= timestamp && header.last_offset() >= from_offset) {
      return BatchAt(cursor);
    }
  }
  GYRE_RETURN_IF_ERROR(cursor.status());
  return absl::OutOfRangeError("no batch is that young");
}

}  // namespace gyre
