#include "engine/network/processor/memory_victims.h"

#include <algorithm>
#include <utility>

namespace gyre {
namespace {

// No reader on a line that works is so far behind.
constexpr int64_t kBehindNs = 250'000'000;

bool IsBehind(const ReaderHolder& holder) {
  return holder.answer_bytes > 0 && holder.behind_ns >= kBehindNs;
}

// The one with answers that is not closed; `end`: there is none.
std::vector<ReaderHolder>::iterator Staying(int64_t slack_bytes,
                                            std::vector<ReaderHolder>::iterator begin,
                                            std::vector<ReaderHolder>::iterator end) {
  const auto rank = [slack_bytes](const ReaderHolder& holder) {
    const bool is_large = holder.answer_bytes > slack_bytes;
    return std::make_pair(is_large && !IsBehind(holder), -holder.behind_ns);
  };
  auto best = end;
  for (auto holder = begin; holder != end; ++holder) {
    if (holder->answer_bytes == 0) continue;
    if (best == end || rank(*holder) > rank(*best)) best = holder;
  }
  return best;
}

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

size_t ChooseVictims(int64_t excess_bytes, int64_t slack_bytes,
                     std::vector<ReaderHolder>* holders) {
  const auto stays = Staying(slack_bytes, holders->begin(), holders->end());
  const bool one_stays = stays != holders->end();
  if (one_stays) std::iter_swap(stays, holders->end() - 1);
  const auto end = holders->end() - (one_stays ? 1 : 0);

  int64_t ahead_bytes = 0;
  int64_t behind_bytes = 0;
  int64_t all_bytes = 0;
  for (auto holder = holders->begin(); holder != end; ++holder) {
    if (holder->answer_bytes == 0) ahead_bytes += holder->ahead_bytes;
    if (IsBehind(*holder)) behind_bytes += holder->held_bytes();
    all_bytes += holder->held_bytes();
  }
  const bool ahead_is_enough = behind_bytes + ahead_bytes >= excess_bytes;
  const auto rank = [ahead_is_enough](const ReaderHolder& holder) {
    if (IsBehind(holder)) return 0;
    return (holder.answer_bytes == 0) == ahead_is_enough ? 1 : 2;
  };
  std::sort(holders->begin(), end, [rank](const ReaderHolder& a, const ReaderHolder& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return a.answer_bytes == 0 ? a.ahead_bytes > b.ahead_bytes : a.behind_ns > b.behind_ns;
  });

  int64_t freed_bytes = 0;
  auto chosen_end = holders->begin();
  const auto choose_until = [&](int64_t wanted_bytes, auto last) {
    while (chosen_end != last && freed_bytes < wanted_bytes) {
      freed_bytes += chosen_end++->held_bytes();
    }
  };
  choose_until(excess_bytes + slack_bytes, std::find_if_not(holders->begin(), end, IsBehind));
  // What the one that stays holds does not come back by closing others.
  const int64_t needed_bytes = std::min(excess_bytes, all_bytes) - slack_bytes;
  const auto not_behind = chosen_end;
  choose_until(needed_bytes, end);
  const auto makes_no_difference = [&](const ReaderHolder& holder) {
    if (freed_bytes - holder.held_bytes() < needed_bytes) return false;
    freed_bytes -= holder.held_bytes();
    return true;
  };
  auto victims_end = not_behind;
  for (auto holder = not_behind; holder != chosen_end; ++holder) {
    if (!makes_no_difference(*holder)) std::iter_swap(victims_end++, holder);
  }
  return static_cast<size_t>(victims_end - holders->begin());
}

}  // namespace gyre
