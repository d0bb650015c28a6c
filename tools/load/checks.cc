#include "tools/load/checks.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace gyre::load {
namespace {

// A broker that sends everything twice must not cost the generator its memory.
constexpr size_t kMaxNoted = 1 << 20;

}  // namespace

void NumberSet::Add(int64_t begin, int64_t end) {
  if (begin >= end) return;
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin()) {
    auto before = std::prev(next);
    if (before->second >= begin) {
      begin = before->first;
      end = std::max(end, before->second);
      next = before;
    }
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    size_ -= next->second - next->first;
    next = ranges_.erase(next);
  }
  ranges_.emplace_hint(next, begin, end);
  size_ += end - begin;
}

bool NumberSet::Remove(int64_t number) {
  auto found = ranges_.upper_bound(number);
  if (found == ranges_.begin()) return false;
  --found;
  const auto [begin, end] = *found;
  if (number >= end) return false;
  ranges_.erase(found);
  if (begin < number) ranges_.emplace(begin, number);
  if (number + 1 < end) ranges_.emplace(number + 1, end);
  --size_;
  return true;
}

bool NumberSet::Contains(int64_t number) const {
  const auto after = ranges_.upper_bound(number);
  return after != ranges_.begin() && std::prev(after)->second > number;
}

int64_t NumberSet::CountWithin(int64_t begin, int64_t end) const {
  int64_t count = 0;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < end; ++at) {
    count += std::max<int64_t>(0, std::min(end, at->second) - std::max(begin, at->first));
  }
  return count;
}

void CheckCounts::Add(const CheckCounts& other) {
  checked += other.checked;
  lost += other.lost;
  duplicated += other.duplicated;
  reordered += other.reordered;
  corrupted += other.corrupted;
  duplicated_by_retry += other.duplicated_by_retry;
  reordered_by_retry += other.reordered_by_retry;
  never_written += other.never_written;
  foreign += other.foreign;
}

StreamCheck::Seen StreamCheck::OnRecord(int64_t number) {
  if (number >= next_) {
    missing_.Add(next_, number);
    next_ = number + 1;
    ++distinct_;
    return Seen::kNew;
  }
  if (missing_.Remove(number)) {
    late_.Add(number, number + 1);
    ++distinct_;
    return Seen::kLate;
  }
  ++again_;
  if (again_by_number_.size() < kMaxNoted || again_by_number_.contains(number)) {
    ++again_by_number_[number];
  }
  return Seen::kAgain;
}

CheckCounts StreamCheck::SettleAlone() const {
  CheckCounts counts;
  counts.checked = distinct_;
  counts.lost = missing_.size();
  counts.duplicated = again_;
  counts.reordered = late_.size();
  return counts;
}

CheckCounts StreamCheck::Settle(const StreamSent& sent, bool idempotent) const {
  CheckCounts counts = SettleAlone();
  counts.lost = sent.acknowledged.CountWithin(next_, INT64_MAX);
  for (const auto& [begin, end] : missing_.ranges()) {
    counts.lost += sent.acknowledged.CountWithin(begin, end);
  }
  const int64_t absent = missing_.size() + std::max<int64_t>(0, sent.sent_count - next_);
  counts.never_written = absent - counts.lost;
  if (idempotent) return counts;  // Then a retry explains nothing.
  for (const auto& [number, times] : again_by_number_) {
    if (sent.retried.Contains(number)) counts.duplicated_by_retry += times;
  }
  for (const auto& [begin, end] : late_.ranges()) {
    counts.reordered_by_retry += sent.retried.CountWithin(begin, end);
  }
  counts.duplicated -= counts.duplicated_by_retry;
  counts.reordered -= counts.reordered_by_retry;
  return counts;
}

}  // namespace gyre::load
