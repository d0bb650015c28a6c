#include "engine/network/processor/memory_victims.h"

#include <algorithm>

namespace gyre {
namespace {

// No reader on a line that works is so far behind.
constexpr int64_t kBehindNs = 250'000'000;

}  // namespace

size_t ChooseVictims(int64_t wanted_bytes, std::vector<PartialHolder>* holders) {
  std::sort(holders->begin(), holders->end(), [](const PartialHolder& a, const PartialHolder& b) {
    if (a.waits != b.waits) return b.waits;
    if (a.missing_bytes != b.missing_bytes) return a.missing_bytes > b.missing_bytes;
    return a.behind_ns > b.behind_ns;
  });
  size_t count = 0;
  for (const PartialHolder& holder : *holders) {
    if (wanted_bytes <= 0 || holder.waits != holders->front().waits) break;
    wanted_bytes -= holder.held_bytes;
    ++count;
  }
  return count;
}

size_t ChooseVictims(int64_t wanted_bytes, std::vector<ReaderHolder>* holders) {
  const auto is_behind = [](const ReaderHolder& holder) {
    return holder.answer_bytes > 0 && holder.behind_ns >= kBehindNs;
  };
  int64_t ahead_bytes = 0;
  int64_t behind_bytes = 0;
  for (const ReaderHolder& holder : *holders) {
    if (holder.answer_bytes == 0) ahead_bytes += holder.ahead_bytes;
    if (is_behind(holder)) behind_bytes += holder.answer_bytes + holder.ahead_bytes;
  }
  const bool ahead_is_enough = behind_bytes + ahead_bytes >= wanted_bytes;
  const auto rank = [&](const ReaderHolder& holder) {
    if (is_behind(holder)) return 0;
    return (holder.answer_bytes == 0) == ahead_is_enough ? 1 : 2;
  };
  std::sort(holders->begin(), holders->end(), [rank](const ReaderHolder& a, const ReaderHolder& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return a.answer_bytes == 0 ? a.ahead_bytes > b.ahead_bytes : a.behind_ns > b.behind_ns;
  });
  size_t left = holders->size();
  const auto best =
      std::find_if(holders->rbegin(), holders->rend(),
                   [](const ReaderHolder& holder) { return holder.answer_bytes > 0; });
  if (best != holders->rend()) {
    std::rotate(best.base() - 1, best.base(), holders->end());
    --left;
  }
  size_t count = 0;
  for (; count < left && wanted_bytes > 0; ++count) {
    wanted_bytes -= (*holders)[count].answer_bytes + (*holders)[count].ahead_bytes;
  }
  return count;
}

}  // namespace gyre
