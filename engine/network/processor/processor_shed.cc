// When there are more connections than max_connections, or one waits for a place that
// is to be made for it: a processor closes those that matter least, one in a turn.
#include <cstdint>
#include <utility>

#include "engine/network/processor/processor.h"

namespace gyre {
namespace {

// Kafka's order: one that is closing anyway, else the least recently used; here
// those without a request in flight come before those with one.
std::pair<int, int64_t> ShedRank(const ConnectionSlot& slot) {
  const int rank = slot.connection.closing() ? 0 : slot.connection.idle() ? 1 : 2;
  return {rank, slot.last_progress_ns};
}

}  // namespace

void Processor::Shed() {
  Slot* victim = nullptr;
  table_.ForEach([&victim](Slot& slot) {
    if (!slot.quota || slot.quota.shed()) return;
    if (victim == nullptr || ShedRank(slot) < ShedRank(*victim)) victim = &slot;
  });
  // The claim says whether there is still one too many: others shed, too.
  if (victim == nullptr || !victim->quota.TryShed()) return;
  seat_.WantShed();
  metrics_.connections_shed.Increment();
  LogClose(*victim, "its place is needed, and it was used least recently");
  victim->connection.Abort();
  Settle(*victim);
}

}  // namespace gyre
