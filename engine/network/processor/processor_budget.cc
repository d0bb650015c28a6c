// A processor's share of the memory limit: answers and bytes received ahead.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

bool Processor::MayAskForResponse(Slot& slot) {
  // Who is answered at length and goes on asking would else take at once what it gives
  // back, before anybody who waits for it.
  const bool is_its_turn =
      std::exchange(served_waiter_, nullptr) == &slot || response_waiters_.empty();
  const bool must_wait = slot.large_responses ? !is_its_turn || response_budget_.IsExhausted()
                                              : response_budget_.IsOverdrawn();
  if (!must_wait) return true;
  metrics_.memory_waits.Increment();
  OnShortMemory();
  if (response_waiters_.empty() && small_response_waiters_.empty()) {
    stall_check_ns_ = now_ns_ + kStallCheckNs;
  }
  slot.connection.SetWaitingForMemory(true);
  (slot.large_responses ? response_waiters_ : small_response_waiters_).PushBack(&slot);
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
  const int64_t bytes = request->response().memory_bytes();
  response_budget_.Learn(bytes);
  slot.large_responses = bytes > ResponseBudget::kSmallBytes;
  HoldAnswer(slot, request, bytes);
}

void Processor::HoldAnswer(Slot& slot, ConnectionRequest* request, int64_t bytes) {
  const int64_t change = bytes - std::exchange(request->budget_bytes, bytes);
  if (change == 0) return;
  slot.held_answer_bytes += change;
  response_budget_.ChangeAnswers(change, slot.closed_for_memory);
  metrics_.response_memory_bytes.Add(change);
}

void Processor::CountAhead(Slot& slot) {
  const int64_t bytes = slot.receive.unparsed_bytes();
  const int64_t change = bytes - std::exchange(slot.counted_ahead_bytes, bytes);
  if (change == 0 || !response_budget_.bounded()) return;
  response_budget_.ChangeAhead(change, slot.closed_for_memory);
  metrics_.response_memory_bytes.Add(change);
}

void Processor::CountSent(Slot& slot) {
  if (!response_budget_.bounded()) return;
  const int64_t sent = slot.traffic.sent_bytes - slot.paced_sent_bytes;
  if (sent > 0) {
    slot.paced_sent_bytes += sent;
    slot.send_pace.Move(now_ns_, sent);
  }
  // Parts leave, and pieces of files are read into memory.
  ConnectionRequest* const front = slot.output.front();
  if (front != nullptr) HoldAnswer(slot, front, front->response().memory_bytes());
}

bool Processor::CanServeResponseWaiters() const {
  return (!small_response_waiters_.empty() && !response_budget_.IsOverdrawn()) ||
         (!response_waiters_.empty() && !response_budget_.IsExhausted());
}

void Processor::ServeResponseWaiters() {
  const auto serve = [this](Slot* slot) {
    owner_.Assert();
    slot->connection.SetWaitingForMemory(false);
    served_waiter_ = slot;
    Settle(*slot);
    served_waiter_ = nullptr;
  };
  while (!small_response_waiters_.empty() && !response_budget_.IsOverdrawn()) {
    serve(small_response_waiters_.PopFront());
  }
  while (!response_waiters_.empty() && !response_budget_.IsExhausted()) {
    serve(response_waiters_.PopFront());
  }
  if (HasResponseWaiters() && now_ns_ >= stall_check_ns_) CloseStalledReaders();
}

// Those that take next to nothing while others wait for what they hold.
void Processor::CloseStalledReaders() {
  stall_check_ns_ = now_ns_ + kStallCheckNs;
  const int64_t stall_ns = options_.response_stall_ms * 1'000'000;
  table_.ForEach([this, stall_ns](Slot& slot) {
    owner_.Assert();
    const bool waits_for_peer = slot.sending == Slot::SendOperation::kSend ||
                                slot.sending == Slot::SendOperation::kZeroCopy ||
                                slot.sending == Slot::SendOperation::kWritable;
    if (slot.connection.shutdown_done() || !waits_for_peer || slot.held_answer_bytes == 0 ||
        slot.send_pace.BehindNs(now_ns_) < stall_ns) {
      return;
    }
    metrics_.responses_stalled.Increment();
    CloseForMemory(slot, "it hardly reads its answers, and others wait for their memory");
  });
}

void Processor::EnforceResponseBudget() {
  const int64_t excess_bytes = response_budget_.excess_bytes();
  const int64_t slack_bytes = response_budget_.slack_bytes();
  if (excess_bytes == 0) {
    tolerated_bytes_ = 0;
    return;
  }
  if (excess_bytes <= tolerated_bytes_ + slack_bytes && now_ns_ < shed_check_ns_) return;
  reader_holders_.clear();
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    if (slot.connection.shutdown_done() || slot.closed_for_memory) return;
    if (slot.held_answer_bytes + slot.counted_ahead_bytes == 0) return;
    reader_holders_.push_back({&slot, slot.held_answer_bytes, slot.counted_ahead_bytes,
                               slot.send_pace.BehindNs(now_ns_)});
  });
  const size_t count = ChooseVictims(excess_bytes, slack_bytes, &reader_holders_);
  int64_t held_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const ReaderHolder& holder = reader_holders_[i];
    held_bytes += holder.held_bytes();
    metrics_.responses_shed.Increment();
    CloseForMemory(*holder.slot, nullptr);
  }
  tolerated_bytes_ = std::max<int64_t>(0, excess_bytes - held_bytes);
  shed_check_ns_ = now_ns_ + kShedCheckNs;
  if (count == 0) return;
  LogMemory(absl::StrCat("closed ", count, " connections that held ", held_bytes,
                         " bytes of answers they do not read, or of requests sent ahead, beyond "
                         "what memory_limit_bytes leaves for them"));
}

void Processor::CloseForMemory(Slot& slot, const char* reason) {
  if (reason != nullptr) LogClose(slot, reason);
  OnShortMemory();
  if (!slot.closed_for_memory) {
    slot.closed_for_memory = true;
    response_budget_.OnLeaving(slot.held_answer_bytes + slot.counted_ahead_bytes);
  }
  slot.connection.Abort();
  Settle(slot);
}

// Their number changes; what rings came after the limit was divided is taken out. So is
// what zero copy still has beyond a bound that was lowered: that is answers' memory now.
void Processor::UpdateResponseBudget() {
  if (!response_budget_.bounded()) return;
  const BudgetShare share = {
      .total_bytes = options_.connection.response_budget_bytes,
      .sharers = std::max<int64_t>(1, metrics_.threads.processor_count()),
      .lent_bytes = sender_.zero_copy_excess_bytes(),
  };
  if (share == budget_share_) return;
  budget_share_ = share;
  const int64_t more = std::max<int64_t>(0, share.sharers - options_.response_budget_processors);
  const int64_t ring_bytes = int64_t{options_.receive_buffer_bytes} * options_.receive_buffer_count;
  const int64_t whole_bytes = std::max<int64_t>(0, share.total_bytes - more * ring_bytes);
  response_budget_.SetCapacity(
      std::max<int64_t>(0, whole_bytes / share.sharers - share.lent_bytes));
}

}  // namespace gyre
