#include "engine/network/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "glog/logging.h"

namespace gyre {

using uring::Completion;
using uring::OpKind;
using uring::Token;

Acceptor::Acceptor(const Listener& listener, UniqueFd listen_fd, std::unique_ptr<uring::Ring> ring,
                   ConnectionQuotas& quotas, ProcessorSet& processors, NetworkMetrics& metrics)
    : listener_(listener),
      ring_(std::move(ring)),
      quotas_(quotas),
      processors_(processors),
      metrics_(metrics),
      listen_fd_(std::move(listen_fd)),
      completions_(kMaxCompletions) {}

Acceptor::~Acceptor() { quotas_.ForgetWaiter(this); }

void Acceptor::StopAccepting() {
  stop_accepting_.store(true, std::memory_order_release);
  ring_->Wake();
}

void Acceptor::OnConnectionRoom() {
  room_.store(true, std::memory_order_release);
  ring_->Wake();
}

void Acceptor::OnThreadStart() {
  owner_.Bind();
  start_status_ = ring_->Attach();
  started_.store(true, std::memory_order_release);
  started_.notify_all();
}

void Acceptor::OnThreadStop() {
  owner_.Assert();
  quotas_.ForgetWaiter(this);
  CloseAll();
  stopped_.store(true, std::memory_order_release);
  owner_.Unbind();
}

bool Acceptor::RunOnce(int64_t now_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return false;
  now_ns_ = now_ns;
  const size_t reaped = std::exchange(reaped_, 0);
  for (size_t i = 0; i < reaped; ++i) OnAccept(completions_[i]);
  if (stop_accepting_.load(std::memory_order_acquire)) {
    MaybeCancel();
    if (!armed_ && !closed_) {
      CloseAll();
      stopped_.store(true, std::memory_order_release);
    }
    return false;
  }
  if (room_.exchange(false, std::memory_order_acq_rel)) AdmitHeld();
  MaybeArm();
  return false;
}

int64_t Acceptor::NextDeadlineNs() const {
  owner_.Assert();
  return paused_until_ns_ > now_ns_ ? paused_until_ns_ : ThreadBody::kNever;
}

void Acceptor::Wait(int64_t now_ns, int64_t deadline_ns) {
  owner_.Assert();
  if (!start_status_.ok()) return;
  const int64_t wait_ns =
      deadline_ns == ThreadBody::kNever ? -1 : std::max<int64_t>(0, deadline_ns - now_ns);
  reaped_ = ring_->SubmitAndReap(absl::MakeSpan(completions_), wait_ns);
}

void Acceptor::MaybeArm() {
  if (armed_ || !held_.empty() || now_ns_ < paused_until_ns_) return;
  armed_ = true;
  cancel_sent_ = false;
  const Token token{OpKind::kAccept, 0, ++generation_};
  if (quotas_.room() < kOneShotRoom) {
    ring_->AcceptOnce(token, listen_fd_.get());
  } else {
    ring_->AcceptMultishot(token, listen_fd_.get());
  }
}

void Acceptor::MaybeCancel() {
  if (!armed_ || cancel_sent_) return;
  cancel_sent_ = true;
  ring_->Cancel(Token{OpKind::kCancel, 0, generation_}, Token{OpKind::kAccept, 0, generation_});
}

void Acceptor::OnAccept(const Completion& completion) {
  if (completion.token.kind != OpKind::kAccept) return;
  if (!completion.more) armed_ = false;
  if (!completion.result.ok()) {
    const int error = completion.result.error();
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) {
      Pause(error);
    } else if (error != ECANCELED && error != ECONNABORTED && error != EINTR && error != EAGAIN) {
      // Told by accept(2) about one connection (a firewall, a protocol error);
      // pausing keeps a permanent one from spinning.
      Pause(error);
    }
    return;
  }
  const int fd = completion.result.bytes();
  SocketAddress peer;
  peer.size = sizeof(peer.storage);
  if (stop_accepting_.load(std::memory_order_acquire) ||
      !ring_->PeerName(fd, &peer.storage, &peer.size).ok()) {
    ring_->Close(fd);
    return;
  }
  if (held_.empty() && TryHandOver(fd, peer)) return;
  if (held_.empty()) {
    metrics_.accept_pauses.Increment();
    uint64_t suppressed = 0;
    if (pause_log_.TryTake(now_ns_, &suppressed)) {
      LOG(WARNING) << "listener " << listener_.bound.ToString() << ": max_connections reached with "
                   << quotas_.total() << " connections; accepting pauses until one is closed";
    }
  }
  held_.push_back(Held{fd, peer});
  MaybeCancel();
}

bool Acceptor::TryHandOver(int fd, const SocketAddress& peer) {
  auto connection = std::make_unique<NewConnection>();
  switch (quotas_.TryAdmit(peer, this, &connection->quota)) {
    case ConnectionQuotas::Verdict::kTotalFull:
      return false;
    case ConnectionQuotas::Verdict::kAddressFull: {
      metrics_.connections_refused_per_address.Increment();
      uint64_t suppressed = 0;
      if (refuse_log_.TryTake(now_ns_, &suppressed)) {
        LOG(WARNING) << "closing connection from " << peer.ToString() << " on "
                     << listener_.bound.listener_name
                     << ": its address has max_connections_per_ip connections";
      }
      ring_->Close(fd);
      return true;
    }
    case ConnectionQuotas::Verdict::kAdmitted:
      break;
  }
  connection->fd = fd;
  connection->peer = peer;
  connection->listener = &listener_;
  processors_.Place(std::move(connection));
  return true;
}

void Acceptor::AdmitHeld() {
  while (!held_.empty() && TryHandOver(held_.front().fd, held_.front().peer)) held_.pop_front();
}

void Acceptor::Pause(int error) {
  metrics_.accept_pauses.Increment();
  paused_until_ns_ = now_ns_ + kPauseNs;
  uint64_t suppressed = 0;
  if (!pause_log_.TryTake(now_ns_, &suppressed)) return;
  if (error == EMFILE || error == ENFILE) {
    LOG(WARNING) << "listener " << listener_.bound.ToString()
                 << ": no file descriptor for a new connection (" << std::strerror(error)
                 << "); accepting pauses for " << kPauseNs / 1'000'000
                 << " ms. Raise the limit (ulimit -n, LimitNOFILE=) or lower max_connections";
  } else {
    LOG(WARNING) << "listener " << listener_.bound.ToString()
                 << ": accept: " << std::strerror(error) << "; accepting pauses for "
                 << kPauseNs / 1'000'000 << " ms";
  }
}

void Acceptor::CloseAll() {
  closed_ = true;
  for (const Held& held : held_) ring_->Close(held.fd);
  held_.clear();
  listen_fd_.Reset();
}

}  // namespace gyre
