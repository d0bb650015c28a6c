#include "engine/purgatory/delayed_operation.h"

#include "engine/purgatory/delayed_operation_purgatory.h"

namespace gyre {

DelayedOperation::DelayedOperation(int64_t timeout_ms) : timeout_ms_(timeout_ms) {
  Continuation::run = [](Continuation* self) {
    const auto operation = RefPtr<DelayedOperation>::Adopt(static_cast<DelayedOperation*>(self));
    operation->RunTurns();
  };
  Continuation::drop = [](Continuation* self) {
    static_cast<DelayedOperation*>(self)->ReleaseReference();
  };
}

DelayedOperation::~DelayedOperation() = default;

bool DelayedOperation::Want(uint32_t flag) {
  uint32_t state = state_.load(std::memory_order_relaxed);
  do {
    if ((state & kCompleted) != 0) return false;
    // acq_rel: what the event's reporter wrote is seen by the turn that clears
    // the flag; who gets the turn sees what the turn before it wrote.
  } while (!state_.compare_exchange_weak(state, state | flag | kRunning, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  return (state & kRunning) == 0;
}

void DelayedOperation::RequestTurn(uint32_t flag) {
  if (!Want(flag)) return;
  AddReference();
  PostAdopted();
}

void DelayedOperation::PostAdopted() { purgatory_->lane_.Post(this); }

bool DelayedOperation::RunTurns() {
  for (;;) {
    uint32_t state = state_.load(std::memory_order_acquire);
    while ((state & kCompleted) != 0 || (state & kWanted) == 0) {
      if (state_.compare_exchange_weak(state, state & ~kRunning, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return (state & kCompleted) != 0;
      }
    }
    RunTurn();
  }
}

void DelayedOperation::RunTurn() {
  const uint32_t wanted = state_.fetch_and(~kCheck, std::memory_order_acq_rel);
  if ((wanted & (kExpired | kForced)) == 0) {
    TryComplete();
  } else if (ForceComplete() && (wanted & kForced) == 0) {
    OnExpiration();
  }
}

bool DelayedOperation::ForceComplete() {
  if ((state_.fetch_or(kCompleted, std::memory_order_acq_rel) & kCompleted) != 0) return false;
  purgatory_->Retire(this);
  OnComplete();
  return true;
}

absl::Span<DelayedOperation::WatchLink> DelayedOperation::MakeLinks(
    absl::Span<const WatchKey> keys) {
  link_count_ = keys.size();
  if (link_count_ > kInlineLinkCount) more_links_ = std::make_unique<WatchLink[]>(link_count_);
  const absl::Span<WatchLink> made = links();
  for (size_t i = 0; i < keys.size(); ++i) {
    made[i].operation = this;
    made[i].key = keys[i];
  }
  return made;
}

absl::Span<DelayedOperation::WatchLink> DelayedOperation::links() {
  return {link_count_ > kInlineLinkCount ? more_links_.get() : inline_links_, link_count_};
}

}  // namespace gyre
