#include "engine/network/processor/processor_intakes.h"

#include <algorithm>
#include <utility>

namespace gyre {

void ProcessorIntakes::StopAccepting() {
  stop_accepting_.store(true, std::memory_order_seq_cst);
  WakeForIntake();
}

void ProcessorIntakes::WakeForIntake() {
  news_.store(true, std::memory_order_seq_cst);
  seat_.WakeIfParked();
}

void ProcessorIntakes::OnCompletion(const uring::Completion& completion, int64_t now_ns) {
  completed_ = true;
  Intake* const intake = intakes_[Intake::SlotOf(completion.token)].get();
  if (intake != nullptr) intake->OnCompletion(completion, now_ns);
}

bool ProcessorIntakes::RunOnce(int64_t now_ns) {
  bool work = news_.exchange(false, std::memory_order_seq_cst);
  while (std::unique_ptr<ListenSocketHandover> socket = seat_.PopListenSocket()) {
    work = true;
    Add(std::move(socket));
  }
  if (std::exchange(completed_, false)) work = true;
  if (!work && now_ns < NextDeadlineNs()) return false;
  const bool stop = stop_accepting_.load(std::memory_order_seq_cst);
  for (std::unique_ptr<Intake>& intake : intakes_) {
    if (intake == nullptr) continue;
    if (stop && !intake->stopping()) intake->StopAccepting();
    intake->RunOnce(now_ns);
    if (intake->released()) {
      move_to_->PlaceListenSocket(intake->TakeSocket());
    } else if (!intake->stopped()) {
      continue;
    }
    intake.reset();
    seat_.OnListenSocketLeft();
  }
  return true;
}

void ProcessorIntakes::Add(std::unique_ptr<ListenSocketHandover> socket) {
  if (leaving_) {
    move_to_->PlaceListenSocket(std::move(socket));
    seat_.OnListenSocketLeft();
    return;
  }
  const auto slot = static_cast<uint32_t>(intakes_.size());
  intakes_.push_back(
      std::make_unique<Intake>(*socket, slot, ring_, metrics_, static_cast<Intake::Host&>(*this)));
}

int64_t ProcessorIntakes::NextDeadlineNs() const {
  int64_t deadline_ns = INT64_MAX;
  for (const std::unique_ptr<Intake>& intake : intakes_) {
    if (intake != nullptr) deadline_ns = std::min(deadline_ns, intake->NextDeadlineNs());
  }
  return deadline_ns;
}

void ProcessorIntakes::MoveTo(ProcessorSet* others) {
  leaving_ = true;
  move_to_ = others;
  for (const std::unique_ptr<Intake>& intake : intakes_) {
    if (intake != nullptr) intake->BeginRelease();
  }
  news_.store(true, std::memory_order_seq_cst);
}

void ProcessorIntakes::MoveSurplusTo(ProcessorSet* set) {
  move_to_ = set;
  int32_t surplus = set->ListenSurplus(seat_);
  for (const std::unique_ptr<Intake>& intake : intakes_) {
    if (surplus == 0) break;
    if (intake == nullptr || intake->releasing()) continue;
    intake->BeginRelease();
    --surplus;
  }
  news_.store(true, std::memory_order_seq_cst);
}

void ProcessorIntakes::OnAdmitted(NewConnection connection) {
  // Through the mailbox, which bounds how many are taken in one turn.
  seat_.EnqueueConnection(std::move(connection));
}

void ProcessorIntakes::Abandon() {
  for (std::unique_ptr<Intake>& intake : intakes_) {
    if (intake == nullptr) continue;
    intake->Abandon();
    intake.reset();
    seat_.OnListenSocketLeft();
  }
}

}  // namespace gyre
