// Whom a processor closes when memory is short and what is held does not come back by
// itself. Pure: candidates in, an order out.
//
// Threads: owner (the processor).
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_MEMORY_VICTIMS_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_MEMORY_VICTIMS_H_

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

  int64_t held_bytes() const { return answer_bytes + ahead_bytes; }
};

// Moves those to be closed to the front, so that `wanted_bytes` come back or nobody is
// left; how many they are. Those whose peers do not send go first, and while there are
// any nobody else goes. Among them, and among those that wait, first who needs most to
// finish, then who has been behind longest: an honest request is mostly nearly there.
size_t ChooseVictims(int64_t wanted_bytes, std::vector<PartialHolder>* holders);

// The same of readers, for what is held beyond the capacity. Those go first that have been
// behind with taking answers for some time, the longest before the others, and until there
// is `slack_bytes` of room; then those that sent most ahead; then those that take their
// answers. Where closing all that sent ahead would not be enough, they go last: it is not
// they who hold it. Of those that are not behind nobody goes whose bytes make no
// difference, and nobody for the last `slack_bytes` of the excess. One with answers stays
// in any case, so that an answer larger than the capacity can be had: the one least behind,
// of those with more than `slack_bytes` unless all of them are behind.
size_t ChooseVictims(int64_t excess_bytes, int64_t slack_bytes, std::vector<ReaderHolder>* holders);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_MEMORY_VICTIMS_H_
