#include "engine/network/accept/acceptor.h"

#include <algorithm>
#include <utility>

namespace gyre {

Acceptor::Acceptor(const Listener& listener, UniqueFd listen_fd, std::unique_ptr<uring::Ring> ring,
                   ConnectionQuotas& quotas, ProcessorSet& processors, NetworkMetrics& metrics)
    : ring_(std::move(ring)),
      processors_(processors),
      metrics_(metrics),
      intake_(listener, std::move(listen_fd), /*slot=*/0, *ring_, quotas, metrics, *this),
      completions_(kMaxCompletions) {
  thread_.kind = NetworkThread::Kind::kAcceptor;
  thread_.listener = listener.bound.listener_name;
  thread_.ring = ring_.get();
  metrics_.threads.Add(&thread_);
}

Acceptor::~Acceptor() { metrics_.threads.Remove(&thread_); }

void Acceptor::OnThreadStart() {
  owner_.Bind();
  start_status_ = ring_->Attach();
  started_.store(true, std::memory_order_release);
  started_.notify_all();
}

void Acceptor::OnThreadStop() {
  owner_.Assert();
  intake_.Abandon();
  owner_.Unbind();
}

bool Acceptor::RunOnce(int64_t now_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return false;
  const size_t reaped = std::exchange(reaped_, 0);
  for (size_t i = 0; i < reaped; ++i) {
    if (completions_[i].token.kind == uring::OpKind::kAccept) {
      intake_.OnCompletion(completions_[i], now_ns);
    }
  }
  intake_.RunOnce(now_ns);
  return false;
}

int64_t Acceptor::NextDeadlineNs() const {
  owner_.Assert();
  return intake_.NextDeadlineNs();
}

void Acceptor::Wait(int64_t now_ns, int64_t deadline_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return;
  const int64_t wait_ns =
      deadline_ns == ThreadBody::kNever ? -1 : std::max<int64_t>(0, deadline_ns - now_ns);
  reaped_ = ring_->SubmitAndReap(absl::MakeSpan(completions_), wait_ns);
}

void Acceptor::OnAdmitted(NewConnection connection) { processors_.Place(std::move(connection)); }

}  // namespace gyre
