#include "engine/network/processor_intakes.h"

#include <algorithm>
#include <utility>

namespace gyre {

ProcessorIntakes::~ProcessorIntakes() {
  while (MpscNode* node = sockets_.Pop()) delete static_cast<ListenSocketHandover*>(node);
}

void ProcessorIntakes::Enqueue(std::unique_ptr<ListenSocketHandover> socket) {
  listening_.fetch_add(1, std::memory_order_acq_rel);
  sockets_.Push(socket.release());
  WakeForIntake();
}

void ProcessorIntakes::StopAccepting() {
  stop_accepting_.store(true, std::memory_order_seq_cst);
  WakeForIntake();
}

void ProcessorIntakes::WakeForIntake() {
  news_.store(true, std::memory_order_seq_cst);
  waker_.WakeIfParked();
}

void ProcessorIntakes::OnCompletion(const uring::Completion& completion, int64_t now_ns) {
  completed_ = true;
  Intake* const intake = intakes_[Intake::SlotOf(completion.token)].get();
  if (intake != nullptr) intake->OnCompletion(completion, now_ns);
}

bool ProcessorIntakes::RunOnce(int64_t now_ns) {
  const bool news = news_.exchange(false, std::memory_order_seq_cst);
  if (!news && !std::exchange(completed_, false) && now_ns < NextDeadlineNs()) return false;
  while (MpscNode* node = sockets_.Pop()) {
    const std::unique_ptr<ListenSocketHandover> socket(static_cast<ListenSocketHandover*>(node));
    intakes_.push_back(std::make_unique<Intake>(
        *socket->listener, std::move(socket->listen_fd), static_cast<uint32_t>(intakes_.size()),
        ring_, *socket->quotas, metrics_, static_cast<Intake::Host&>(*this)));
  }
  const bool stop = stop_accepting_.load(std::memory_order_seq_cst);
  for (std::unique_ptr<Intake>& intake : intakes_) {
    if (intake == nullptr) continue;
    if (stop && !intake->stopping()) intake->StopAccepting();
    intake->RunOnce(now_ns);
    if (!intake->stopped()) continue;
    intake.reset();
    listening_.fetch_sub(1, std::memory_order_acq_rel);
  }
  return true;
}

int64_t ProcessorIntakes::NextDeadlineNs() const {
  int64_t deadline_ns = INT64_MAX;
  for (const std::unique_ptr<Intake>& intake : intakes_) {
    if (intake != nullptr) deadline_ns = std::min(deadline_ns, intake->NextDeadlineNs());
  }
  return deadline_ns;
}

void ProcessorIntakes::OnAdmitted(std::unique_ptr<NewConnection> connection) {
  // Through the mailbox, which bounds how many are taken in one turn.
  target_.EnqueueConnection(std::move(connection));
}

void ProcessorIntakes::Abandon() {
  for (std::unique_ptr<Intake>& intake : intakes_) {
    if (intake == nullptr) continue;
    intake->Abandon();
    intake.reset();
    listening_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace gyre
