#include "engine/storage/offset_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/base/status_macros.h"

namespace gyre {
namespace {

int32_t RelativeOffset(const char* entry) { return LoadBigEndian<int32_t>(entry); }
int32_t Position(const char* entry) { return LoadBigEndian<int32_t>(entry + 4); }

bool InOrder(const char* previous, const char* next) {
  return RelativeOffset(previous) < RelativeOffset(next) && Position(previous) < Position(next);
}

}  // namespace

OffsetPosition OffsetIndex::Decode(const char* entry) const {
  return {base_offset_ + RelativeOffset(entry), Position(entry)};
}

absl::Status OffsetIndex::Load(FileRef file, int64_t log_bytes) {
  GYRE_RETURN_IF_ERROR(file_.Load(file, &InOrder));
  IndexFile::Entry entry;
  // Position 0 in a longer index is the zeros of a preallocated file that was
  // never trimmed.
  if (file_.Last(&entry) &&
      ((Position(entry.bytes) == 0 && file_.entry_count() > 1) || Position(entry.bytes) < 0 ||
       Position(entry.bytes) >= log_bytes || RelativeOffset(entry.bytes) < 0)) {
    return absl::DataLossError(
        absl::StrCat(file->path(), ": last entry points outside the segment"));
  }
  return absl::OkStatus();
}

void OffsetIndex::Append(int64_t last_offset, int64_t position) {
  char entry[kEntryBytes];
  StoreBigEndian<int32_t>(entry, static_cast<int32_t>(last_offset - base_offset_));
  StoreBigEndian<int32_t>(entry + 4, static_cast<int32_t>(position));
  file_.Append(entry);
}

OffsetPosition OffsetIndex::Lookup(int64_t offset) const {
  IndexFile::Entry entry;
  const int64_t relative = offset - base_offset_;
  const int64_t index =
      file_.FindLast([relative](const char* at) { return RelativeOffset(at) <= relative; }, &entry);
  return index < 0 ? OffsetPosition{base_offset_, 0} : Decode(entry.bytes);
}

OffsetPosition OffsetIndex::LookupPosition(int64_t position) const {
  IndexFile::Entry entry;
  const int64_t index =
      file_.FindLast([position](const char* at) { return Position(at) <= position; }, &entry);
  return index < 0 ? OffsetPosition{base_offset_, 0} : Decode(entry.bytes);
}

OffsetPosition OffsetIndex::Last() const {
  IndexFile::Entry entry;
  return file_.Last(&entry) ? Decode(entry.bytes) : OffsetPosition{base_offset_, 0};
}

absl::Status OffsetIndex::TruncateTo(int64_t offset) {
  IndexFile::Entry entry;
  const int64_t relative = offset - base_offset_;
  return file_.Truncate(
      file_.FindLast([relative](const char* at) { return RelativeOffset(at) < relative; }, &entry) +
      1);
}

}  // namespace gyre
