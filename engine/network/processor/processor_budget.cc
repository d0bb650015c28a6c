// A processor's share of the memory limit: answers and bytes received ahead.
#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

bool Processor::MayAskForResponse(Slot& slot) {
  if (!slot.large_responses || !response_budget_.IsExhausted()) return true;
  metrics_.memory_waits.Increment();
  if (response_waiters_.empty()) stall_check_ns_ = now_ns_ + kStallCheckNs;
  slot.connection.SetWaitingForMemory(true);
  response_waiters_.PushBack(&slot);
  return false;
}

void Processor::CountRequests(Slot& slot, ConnectionRequest* first) {
  if (!response_budget_.bounded() || !slot.large_responses) return;
  for (ConnectionRequest* request = first; request != nullptr; request = request->next_in_run) {
    request->counts_in_budget = true;
    response_budget_.OnRequest();
  }
}

void Processor::CountResponse(Slot& slot, ConnectionRequest* request) {
  if (!response_budget_.bounded()) return;
  if (std::exchange(request->counts_in_budget, false)) response_budget_.OnAnswered();
  request->budget_bytes = request->response().memory_bytes();
  response_budget_.AddResponse(request->budget_bytes);
  slot.large_responses = request->budget_bytes > ResponseBudget::kSmallBytes;
}

void Processor::CountAhead(Slot& slot) {
  const int64_t bytes = slot.receive.unparsed_bytes();
  response_budget_.Change(bytes - slot.counted_ahead_bytes);
  slot.counted_ahead_bytes = bytes;
}

void Processor::ServeResponseWaiters() {
  while (!response_waiters_.empty() && !response_budget_.IsExhausted()) {
    Slot* slot = response_waiters_.PopFront();
    slot->connection.SetWaitingForMemory(false);
    Settle(*slot);
  }
  if (response_waiters_.empty() || now_ns_ < stall_check_ns_) return;
  stall_check_ns_ = now_ns_ + kStallCheckNs;
  // Readers that take nothing while others wait for what they hold.
  const int64_t stalled_since_ns = now_ns_ - options_.response_stall_ms * 1'000'000;
  table_.ForEach([this, stalled_since_ns](Slot& slot) {
    owner_.Assert();
    if (slot.connection.shutdown_done() || !slot.connection.send_busy() ||
        slot.last_progress_ns > stalled_since_ns) {
      return;
    }
    metrics_.responses_stalled.Increment();
    LogClose(slot, "it does not read its answers, and others wait for their memory");
    slot.connection.Abort();
    Settle(slot);
  });
}

}  // namespace gyre
