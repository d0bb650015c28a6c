#include "engine/network/accept/intake.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace gyre {

using uring::Completion;
using uring::OpKind;
using uring::Token;

namespace {

std::string HeldBack(uint64_t suppressed) {
  return suppressed == 0 ? "" : absl::StrCat(" (", suppressed, " similar lines held back)");
}

}  // namespace

Intake::Intake(const Listener& listener, UniqueFd listen_fd, uint32_t slot, uring::Ring& ring,
               ConnectionQuotas& quotas, NetworkMetrics& metrics, Host& host)
    : listener_(listener),
      listen_fd_(std::move(listen_fd)),
      slot_(slot),
      ring_(ring),
      quotas_(quotas),
      metrics_(metrics),
      listener_metrics_(metrics.OfListener(listener.bound.listener_name)),
      host_(host),
      throttled_(0) {
  armed_.reserve(kOneShotRoom + 1);
  thread_.kind = NetworkThread::Kind::kIntake;
  thread_.listener = listener.bound.listener_name;
  thread_.blocked_context = this;
  thread_.blocked_ns = [](const void* intake, int64_t now_ns) {
    return static_cast<const Intake*>(intake)->paused_ns(now_ns);
  };
  metrics_.threads.Add(&thread_);
}

Intake::Intake(ListenSocketHandover& socket, uint32_t slot, uring::Ring& ring,
               NetworkMetrics& metrics, Host& host)
    : Intake(*socket.listener, std::move(socket.listen_fd), slot, ring, *socket.quotas, metrics,
             host) {
  held_ = std::exchange(socket.held, {});
}

Intake::~Intake() {
  metrics_.threads.Remove(&thread_);
  Abandon();
  while (throttled_free_.PopFront() != nullptr) {
  }
}

// --- any thread --------------------------------------------------------------------

void Intake::StopAccepting() {
  stop_accepting_.store(true, std::memory_order_seq_cst);
  host_.WakeForIntake();
}

void Intake::OnConnectionRoom() {
  room_.store(true, std::memory_order_seq_cst);
  host_.WakeForIntake();
}

int64_t Intake::paused_ns(int64_t now_ns) const {
  const int64_t since_ns = paused_since_ns_.load(std::memory_order_relaxed);
  return paused_before_ns_.load(std::memory_order_relaxed) +
         (since_ns < 0 ? 0 : std::max<int64_t>(0, now_ns - since_ns));
}

// --- the host's thread ---------------------------------------------------------------

void Intake::RunOnce(int64_t now_ns) {
  now_ns_ = now_ns;
  if (closed_) return;
  if (stop_accepting_.load(std::memory_order_seq_cst)) {
    next_deadline_ns_ = kNever;
    CancelArmed();
    if (armed_.empty()) Abandon();
    return;
  }
  CloseThrottled(now_ns_);
  if (releasing_) {
    next_deadline_ns_ = kNever;
    CancelArmed();
    return;
  }
  const bool room = room_.exchange(false, std::memory_order_seq_cst);
  // What it waited for may have come; if it has not, the quotas say so again.
  if (now_ns_ >= retry_ns_ || (room && pause_ != PauseReason::kError)) Resume();
  if (pause_ == PauseReason::kNone) AdmitHeld();
  if (pause_ == PauseReason::kNone) Arm();
  if (!held_.empty()) CancelArmed();
  next_deadline_ns_ = std::min(retry_ns_, throttled_.NextExpiryNs());
}

void Intake::Arm() {
  if (multishot_armed_) return;
  const ConnectionQuotas::Room room = quotas_.AskRoom(listener_.index, now_ns_, this);
  if (room.count >= kOneShotRoom) {
    multishot_armed_ = true;
    cancel_sent_ = false;
    armed_.push_back(++generation_);
    ring_.AcceptMultishot(Token{OpKind::kAccept, slot_, generation_}, listen_fd_.get());
    return;
  }
  while (static_cast<int64_t>(armed_.size()) < room.count) {
    cancel_sent_ = false;
    armed_.push_back(++generation_);
    ring_.AcceptOnce(Token{OpKind::kAccept, slot_, generation_}, listen_fd_.get());
  }
  if (room.count == 0 && armed_.empty()) {
    Pause(room.delay_ns > 0 ? PauseReason::kRate : PauseReason::kMaximum,
          room.delay_ns > 0 ? now_ns_ + room.delay_ns : kNever);
  }
}

void Intake::CancelArmed() {
  if (armed_.empty() || std::exchange(cancel_sent_, true)) return;
  for (const uint32_t generation : armed_) {
    ring_.Cancel(Token{OpKind::kAccept, slot_ | kCancelSlot, generation},
                 Token{OpKind::kAccept, slot_, generation});
  }
}

void Intake::OnCompletion(const Completion& completion, int64_t now_ns) {
  now_ns_ = now_ns;
  if ((completion.token.slot & kCancelSlot) != 0) {
    // It was just being carried out: once more, while there is a reason.
    if (!completion.result.ok() && completion.result.error() == EALREADY) cancel_sent_ = false;
    return;
  }
  if (!completion.more) {
    if (multishot_armed_ && completion.token.generation == armed_.back()) multishot_armed_ = false;
    armed_.erase(std::remove(armed_.begin(), armed_.end(), completion.token.generation),
                 armed_.end());
  }
  if (completion.result.ok()) {
    OnSocket(completion.result.bytes());
  } else {
    OnError(completion.result.error());
  }
}

void Intake::OnSocket(int fd) {
  SocketAddress peer;
  peer.size = sizeof(peer.storage);
  // One that was accepted before accepting stopped is served: its peer is connected.
  if (closed_ || !ring_.PeerName(fd, &peer.storage, &peer.size).ok()) {
    ring_.Close(fd);
    return;
  }
  if (held_.empty() && TryAdmit(fd, peer, /*was_held=*/false)) return;
  held_.PushBack(HeldSocket{fd, peer});
  quotas_.Hold(listener_.index);
  CancelArmed();
}

bool Intake::TryAdmit(int fd, const SocketAddress& peer, bool was_held) {
  NewConnection connection;
  const ConnectionQuotas::Decision decision =
      quotas_.Admit(listener_.index, peer, now_ns_, was_held, this, &connection.quota);
  switch (decision.verdict) {
    case ConnectionQuotas::Verdict::kFull:
      Pause(PauseReason::kMaximum, kNever);
      return false;
    case ConnectionQuotas::Verdict::kRateExceeded:
      Pause(PauseReason::kRate, now_ns_ + decision.delay_ns);
      return false;
    case ConnectionQuotas::Verdict::kAddressFull:
      metrics_.connections_refused_per_address.Increment();
      Refuse(fd, peer, "its address has max_connections_per_ip connections");
      return true;
    case ConnectionQuotas::Verdict::kAddressRateExceeded:
      metrics_.connections_throttled_per_address.Increment();
      listener_metrics_.ip_throttled.Record(decision.delay_ns);
      Throttle(fd, decision.delay_ns);
      return true;
    case ConnectionQuotas::Verdict::kAdmitted:
      break;
  }
  listener_metrics_.accepted.Increment();
  connection.fd = fd;
  connection.peer = peer;
  connection.listener = &listener_;
  host_.OnAdmitted(std::move(connection));
  return true;
}

void Intake::AdmitHeld() {
  while (!held_.empty() && TryAdmit(held_.front().fd, held_.front().peer, /*was_held=*/true)) {
    held_.PopFront();
  }
}

// --- sockets that are not served ---------------------------------------------------------

void Intake::Refuse(int fd, const SocketAddress& peer, const char* reason) {
  uint64_t suppressed = 0;
  if (refuse_log_.TryTake(now_ns_, &suppressed)) {
    LOG(WARNING) << "closing connection from " << peer.ToString() << " on "
                 << listener_.bound.listener_name << ": " << reason;
  }
  ring_.Close(fd);
}

void Intake::Throttle(int fd, int64_t delay_ns) {
  if (throttled_.size() >= kMaxThrottled) return ring_.Close(fd);
  if (throttled_free_.empty()) {
    throttled_made_.push_back(std::make_unique<Throttled>());
    throttled_free_.PushBack(throttled_made_.back().get());
  }
  auto* const throttled = static_cast<Throttled*>(throttled_free_.PopFront());
  throttled->fd = fd;
  throttled->deadline_ns = now_ns_ + delay_ns;
  throttled_.Add(throttled);
}

void Intake::CloseThrottled(int64_t until_ns) {
  TimerList expired;
  throttled_.AdvanceTo(until_ns, &expired);
  while (TimerEntry* entry = expired.PopFront()) {
    ring_.Close(static_cast<Throttled*>(entry)->fd);
    throttled_free_.PushBack(entry);
  }
}

// --- pauses ---------------------------------------------------------------------------------

void Intake::OnError(int error) {
  switch (error) {
    case ECANCELED:
    case ECONNABORTED:
    case EINTR:
    case EAGAIN:
      return;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
      break;
    default:
      // Told by accept(2) about one connection (a firewall, a protocol error);
      // pausing keeps a permanent one from spinning.
      break;
  }
  Pause(PauseReason::kError, now_ns_ + kErrorPauseNs);
  CancelArmed();
  uint64_t suppressed = 0;
  if (!error_log_.TryTake(now_ns_, &suppressed)) return;
  if (error == EMFILE || error == ENFILE) {
    LOG(WARNING) << "listener " << listener_.bound.ToString()
                 << ": no file descriptor for a new connection (" << std::strerror(error)
                 << "); accepting pauses for " << kErrorPauseNs / 1'000'000
                 << " ms. Raise the limit (ulimit -n, LimitNOFILE=) or lower max_connections"
                 << HeldBack(suppressed);
  } else {
    LOG(WARNING) << "listener " << listener_.bound.ToString()
                 << ": accept: " << std::strerror(error) << "; accepting pauses for "
                 << kErrorPauseNs / 1'000'000 << " ms" << HeldBack(suppressed);
  }
}

void Intake::Pause(PauseReason reason, int64_t until_ns) {
  retry_ns_ = until_ns;
  if (std::exchange(pause_, reason) != PauseReason::kNone) return;
  metrics_.accept_pauses.Increment();
  if (reason == PauseReason::kRate) listener_metrics_.throttled.Record(until_ns - now_ns_);
  paused_since_ns_.store(now_ns_, std::memory_order_relaxed);
  uint64_t suppressed = 0;
  if (reason == PauseReason::kError || !pause_log_.TryTake(now_ns_, &suppressed)) return;
  if (reason == PauseReason::kRate) {
    LOG(WARNING) << "listener " << listener_.bound.ToString()
                 << ": max_connection_creation_rate reached; accepting pauses"
                 << HeldBack(suppressed);
  } else {
    LOG(WARNING) << "listener " << listener_.bound.ToString() << ": "
                 << listener_.max_connections_name << " reached with " << quotas_.total()
                 << " connections; "
                 << (listener_.sheds_when_full
                         ? "the least recently used is closed for each new one"
                         : "accepting pauses until one is closed")
                 << HeldBack(suppressed);
  }
}

void Intake::Resume() {
  retry_ns_ = kNever;
  if (std::exchange(pause_, PauseReason::kNone) == PauseReason::kNone) return;
  const int64_t since_ns = paused_since_ns_.exchange(-1, std::memory_order_relaxed);
  paused_before_ns_.fetch_add(now_ns_ - since_ns, std::memory_order_relaxed);
}

// --- the end ----------------------------------------------------------------------------------

void Intake::CloseAll() {
  if (std::exchange(closed_, true)) return;
  quotas_.ForgetWaiter(this);
  if (!held_.empty()) quotas_.LetGo(listener_.index, static_cast<int64_t>(held_.size()));
  while (!held_.empty()) ring_.Close(held_.PopFront().fd);
  CloseThrottled(kNever);
  Resume();
  listen_fd_.Reset();
}

std::unique_ptr<ListenSocketHandover> Intake::TakeSocket() {
  DCHECK(released());
  auto socket = std::make_unique<ListenSocketHandover>();
  socket->listen_fd = std::move(listen_fd_);
  socket->listener = &listener_;
  socket->quotas = &quotas_;
  socket->held = std::exchange(held_, {});
  Abandon();
  return socket;
}

void Intake::Abandon() {
  CloseAll();
  stopped_.store(true, std::memory_order_release);
}

}  // namespace gyre
