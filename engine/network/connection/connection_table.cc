#include "engine/network/connection/connection_table.h"

#include <algorithm>
#include <memory>
#include <new>

#include "glog/logging.h"

namespace gyre {

ConnectionSlot* ConnectionTable::Acquire() {
  ConnectionSlot* slot = nullptr;
  if (!free_.empty()) {
    slot = &At(free_.back());
    free_.pop_back();
  } else {
    if (made_ == max_slots_) return nullptr;
    if (made_ % kChunkSlots == 0) {
      chunks_.push_back(std::make_unique<Chunk>());
      // So that Release never allocates.
      free_.reserve(chunks_.size() * kChunkSlots);
    }
    Chunk& chunk = *chunks_.back();
    slot =
        new (&chunk.storage[size_t{chunk.made} * sizeof(ConnectionSlot)]) ConnectionSlot(limits_);
    slot->index = made_++;
    slot->generation = first_generation_;
    ++chunk.made;
  }
  slot->generation = (slot->generation + 1) & ((1u << (32 - kOperationBits)) - 1);
  last_generation_ = std::max(last_generation_, slot->generation);
  slot->open = true;
  slot->connection = Connection(limits_);
  ++used_;
  return slot;
}

void ConnectionTable::Release(ConnectionSlot* slot) {
  DCHECK(slot->open);
  DCHECK(slot->output.empty());
  DCHECK(slot->transfer == nullptr);
  DCHECK(slot->next_request == nullptr);
  DCHECK_EQ(slot->zero_copy_pinned_bytes, 0u);
  DCHECK_EQ(slot->counted_ahead_bytes, 0);
  DCHECK_EQ(slot->held_answer_bytes, 0);
  slot->closed_for_memory = false;
  slot->open = false;
  slot->fd = -1;
  slot->socket_readable = false;
  slot->sending = ConnectionSlot::SendOperation::kNone;
  slot->large_responses = false;
  slot->zero_copy_off = false;
  slot->zero_copy_copied = 0;
  slot->turn_bytes = 0;
  slot->throttle_end_ns = 0;
  slot->answer_bytes = 0;
  DCHECK(!slot->counted_as_throttled);
  slot->frame_late = false;
  std::destroy_at(&slot->session);
  std::construct_at(&slot->session);
  free_.push_back(slot->index);
  --used_;
}

}  // namespace gyre
