#include "engine/storage/leader_epoch_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace gyre {
namespace {

absl::Status Damaged(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::Status LeaderEpochCache::Load(FileSystem& file_system, const std::string& path) {
  {
    MutexLock lock(mutex_);
    entries_.clear();
  }
  GYRE_ASSIGN_OR_RETURN(const std::string text, file_system.ReadFile(path));
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  int count = 0;
  if (lines.size() < 2 || lines[0] != "0" || !absl::SimpleAtoi(lines[1], &count) || count < 0 ||
      lines.size() != static_cast<size_t>(count) + 2) {
    return Damaged(path, "not a checkpoint of version 0");
  }
  std::vector<Entry> entries;
  for (size_t i = 2; i < lines.size(); ++i) {
    const std::vector<absl::string_view> words = absl::StrSplit(lines[i], ' ');
    Entry entry;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &entry.epoch) ||
        !absl::SimpleAtoi(words[1], &entry.start_offset) || entry.epoch < 0 ||
        entry.start_offset < 0) {
      return Damaged(path, absl::StrCat("line ", i + 1, " is no epoch and offset"));
    }
    if (!entries.empty() &&
        (entries.back().epoch >= entry.epoch || entries.back().start_offset > entry.start_offset)) {
      return Damaged(path, absl::StrCat("line ", i + 1, " does not rise"));
    }
    entries.push_back(entry);
  }
  MutexLock lock(mutex_);
  entries_ = std::move(entries);
  return absl::OkStatus();
}

absl::Status LeaderEpochCache::Persist(FileSystem& file_system, const std::string& path) const {
  const std::vector<Entry> entries = this->entries();
  std::string text = absl::StrCat("0\n", entries.size(), "\n");
  for (const Entry& entry : entries) {
    absl::StrAppend(&text, entry.epoch, " ", entry.start_offset, "\n");
  }
  return file_system.WriteFileAtomically(path, text);
}

bool LeaderEpochCache::Assign(int32_t epoch, int64_t start_offset) {
  MutexLock lock(mutex_);
  if (epoch < 0 || (!entries_.empty() && entries_.back().epoch >= epoch)) return false;
  while (!entries_.empty() && entries_.back().start_offset >= start_offset) entries_.pop_back();
  entries_.push_back({epoch, start_offset});
  return true;
}

int32_t LeaderEpochCache::latest_epoch() const {
  MutexLock lock(mutex_);
  return entries_.empty() ? -1 : entries_.back().epoch;
}

int32_t LeaderEpochCache::EpochOf(int64_t offset) const {
  MutexLock lock(mutex_);
  const auto after = std::upper_bound(
      entries_.begin(), entries_.end(), offset,
      [](int64_t value, const Entry& entry) { return value < entry.start_offset; });
  return after == entries_.begin() ? -1 : std::prev(after)->epoch;
}

EpochEndOffset LeaderEpochCache::EndOffsetFor(int32_t epoch, int64_t log_end_offset) const {
  MutexLock lock(mutex_);
  if (epoch < 0 || entries_.empty() || epoch > entries_.back().epoch) return {};
  if (epoch == entries_.back().epoch) return {epoch, log_end_offset};
  const auto next =
      std::upper_bound(entries_.begin(), entries_.end(), epoch,
                       [](int32_t value, const Entry& entry) { return value < entry.epoch; });
  if (next == entries_.begin()) return {epoch, next->start_offset};
  return {std::prev(next)->epoch, next->start_offset};
}

bool LeaderEpochCache::TruncateFromEnd(int64_t offset) {
  MutexLock lock(mutex_);
  const size_t before = entries_.size();
  while (!entries_.empty() && entries_.back().start_offset >= offset) entries_.pop_back();
  return entries_.size() != before;
}

std::vector<LeaderEpochCache::Entry> LeaderEpochCache::entries() const {
  MutexLock lock(mutex_);
  return entries_;
}

}  // namespace gyre
