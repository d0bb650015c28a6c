#include "engine/storage/time_index.h"

#include <utility>

#include "engine/base/endian.h"

namespace gyre {
namespace {

int64_t Timestamp(const char* entry) { return LoadBigEndian<int64_t>(entry); }
int32_t RelativeOffset(const char* entry) { return LoadBigEndian<int32_t>(entry + 8); }

// Kafka allows one entry that repeats the last: its final entry at a roll.
bool InOrder(const char* previous, const char* next) {
  return Timestamp(previous) <= Timestamp(next) && RelativeOffset(previous) <= RelativeOffset(next);
}

}  // namespace

TimestampOffset TimeIndex::Decode(const char* entry) const {
  return {Timestamp(entry), base_offset_ + RelativeOffset(entry)};
}

absl::Status TimeIndex::Load(FileRef file) { return file_.Load(std::move(file), &InOrder); }

void TimeIndex::MaybeAppend(int64_t timestamp, int64_t offset) {
  const TimestampOffset last = Last();
  if (timestamp <= last.timestamp || offset < last.offset) return;
  char entry[kEntryBytes];
  StoreBigEndian<int64_t>(entry, timestamp);
  StoreBigEndian<int32_t>(entry + 8, static_cast<int32_t>(offset - base_offset_));
  file_.Append(entry);
}

TimestampOffset TimeIndex::LookupBelow(int64_t timestamp) const {
  IndexFile::Entry entry;
  const int64_t index =
      file_.FindLast([timestamp](const char* at) { return Timestamp(at) < timestamp; }, &entry);
  return index < 0 ? TimestampOffset{-1, base_offset_} : Decode(entry.bytes);
}

TimestampOffset TimeIndex::Last() const {
  IndexFile::Entry entry;
  return file_.Last(&entry) ? Decode(entry.bytes) : TimestampOffset{-1, base_offset_};
}

absl::Status TimeIndex::TruncateTo(int64_t offset) {
  IndexFile::Entry entry;
  const int64_t relative = offset - base_offset_;
  return file_.Truncate(
      file_.FindLast([relative](const char* at) { return RelativeOffset(at) < relative; }, &entry) +
      1);
}

}  // namespace gyre
