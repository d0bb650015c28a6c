// Whom a processor closes when memory is short and what is held does not come back by
// itself. Pure: candidates in, an order out.
//
// Threads: owner (the processor).
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_MEMORY_VICTIMS_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_MEMORY_VICTIMS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre {

struct ConnectionSlot;

// One whose peer has yet to send the rest of a request.
struct PartialHolder {
  ConnectionSlot* slot = nullptr;
  int64_t held_bytes = 0;
  int64_t missing_bytes = 0;  // of the request
  int64_t behind_ns = 0;      // with sending; or how long it waits for memory
  // It could go on, had it memory: not its fault.
  bool waits = false;
};

// One whose peer has yet to take answers, or that sent requests ahead.
struct ReaderHolder {
  ConnectionSlot* slot = nullptr;
  int64_t answer_bytes = 0;
  int64_t ahead_bytes = 0;
  int64_t behind_ns = 0;  // with taking
};

// Moves those to be closed to the front, so that `wanted_bytes` come back or nobody is
// left; how many they are. Those whose peers do not send go first, and while there are
// any nobody else goes. Among them, and among those that wait, first who needs most to
// finish, then who has been behind longest: an honest request is mostly nearly there.
inline size_t ChooseVictims(int64_t wanted_bytes, std::vector<PartialHolder>* holders) {
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

// The same of readers. Those with answers go first, who has been behind longest before
// the others; then those that sent most ahead. Of those with answers the one least behind
// stays in any case, so that an answer larger than the capacity can be had.
inline size_t ChooseVictims(int64_t wanted_bytes, std::vector<ReaderHolder>* holders) {
  std::sort(holders->begin(), holders->end(), [](const ReaderHolder& a, const ReaderHolder& b) {
    const bool a_answers = a.answer_bytes > 0;
    const bool b_answers = b.answer_bytes > 0;
    if (a_answers != b_answers) return a_answers;
    return a_answers ? a.behind_ns > b.behind_ns : a.ahead_bytes > b.ahead_bytes;
  });
  size_t left = holders->size();
  const auto no_answers =
      std::find_if(holders->begin(), holders->end(),
                   [](const ReaderHolder& holder) { return holder.answer_bytes == 0; });
  if (no_answers != holders->begin()) {
    std::rotate(no_answers - 1, no_answers, holders->end());
    --left;
  }
  size_t count = 0;
  for (; count < left && wanted_bytes > 0; ++count) {
    wanted_bytes -= (*holders)[count].answer_bytes + (*holders)[count].ahead_bytes;
  }
  return count;
}

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_MEMORY_VICTIMS_H_
