// Takes connections off one listening socket, on the ring of whoever hosts it (an
// acceptor's, or in reuseport mode a processor's), and asks the quotas about each.
//
// With room enough the accept is a multishot. Near a maximum or a rate's limit as
// many one-shots are armed as there is room for, so that few sockets arrive that
// cannot be admitted; without room none is armed, and clients wait in the kernel's
// backlog. Sockets that had completed all the same are held, unserved, and are
// admitted first; a listener that sheds when it is full accepts one at a time to that
// end. A connection over its address's maximum is closed at once; one
// over its address's rate is kept, unserved and uncounted, for the delay and then
// closed. Without descriptors (EMFILE, ENFILE) accepting pauses, says so, and is
// armed again.
//
// A listening socket may change its host: it is never closed while the listener goes
// on, since that would reset the connections of its backlog.
//
// Threads: the host's; StopAccepting, stopped and paused_ns any.
// Owns: the listening socket, held and throttled sockets.
// Borrows: listener, ring, quotas, metrics and host.
// Invariant: an accepted socket is admitted, held, throttled or closed.
#ifndef GYRE_ENGINE_NETWORK_ACCEPT_INTAKE_H_
#define GYRE_ENGINE_NETWORK_ACCEPT_INTAKE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/fifo.h"
#include "engine/base/log_every.h"
#include "engine/base/unique_fd.h"
#include "engine/network/accept/listen_socket_handover.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/connection/new_connection.h"
#include "engine/network/listener.h"
#include "engine/network/network_metrics.h"
#include "engine/timer/timing_wheel.h"
#include "engine/uring/ring.h"

namespace gyre {

class Intake final : private ConnectionQuotas::RoomListener {
 public:
  class Host {
   public:
    // The host's thread.
    virtual void OnAdmitted(NewConnection connection) = 0;
    // Any thread: RunOnce shall be called soon.
    virtual void WakeForIntake() = 0;

   protected:
    ~Host() = default;
  };

  // `slot` tells this intake's tokens (kind kAccept) from others on the ring.
  Intake(const Listener& listener, UniqueFd listen_fd, uint32_t slot, uring::Ring& ring,
         ConnectionQuotas& quotas, NetworkMetrics& metrics, Host& host);
  // Goes on where another host's left off.
  Intake(ListenSocketHandover& socket, uint32_t slot, uring::Ring& ring, NetworkMetrics& metrics,
         Host& host);
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Accepts no more, closes the listening socket and what is held; done when
  // stopped().
  void StopAccepting();
  bool stopping() const { return stop_accepting_.load(std::memory_order_acquire); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  // For how long altogether accepting has waited for a maximum, a rate or
  // descriptors.
  int64_t paused_ns(int64_t now_ns) const;

  // Every completion of kind kAccept with this slot.
  void OnCompletion(const uring::Completion& completion, int64_t now_ns);
  static uint32_t SlotOf(const uring::Token& token) { return token.slot & ~kCancelSlot; }
  // Once a turn, after the completions.
  void RunOnce(int64_t now_ns);
  int64_t NextDeadlineNs() const { return next_deadline_ns_; }
  // The ring goes away, and with it what is armed.
  void Abandon();
  // Accepts no more here; once released() the socket can be taken to another host. What
  // is throttled is closed then.
  void BeginRelease() { releasing_ = true; }
  bool releasing() const { return releasing_; }
  bool released() const { return releasing_ && !closed_ && armed_.empty(); }
  std::unique_ptr<ListenSocketHandover> TakeSocket();

 private:
  struct Throttled : TimerEntry {
    int fd = -1;
  };
  enum class PauseReason : uint8_t { kNone, kMaximum, kRate, kError };

  void OnConnectionRoom() override;
  void OnSocket(int fd);
  // False: it has to wait, and is still the caller's.
  bool TryAdmit(int fd, const SocketAddress& peer, bool was_held);
  void AdmitHeld();
  void Throttle(int fd, int64_t delay_ns);
  // Those that have been held until then.
  void CloseThrottled(int64_t until_ns);
  void Arm();
  void CancelArmed();
  void OnError(int error);
  void Pause(PauseReason reason, int64_t until_ns);
  void Resume();
  void Refuse(int fd, const SocketAddress& peer, const char* reason);
  void CloseAll();

  static constexpr uint32_t kCancelSlot = 1u << 23;
  static constexpr int64_t kErrorPauseNs = 100'000'000;
  static constexpr int64_t kNever = INT64_MAX;
  // With less room than this, one-shots.
  static constexpr int64_t kOneShotRoom = 16;
  // More throttled sockets than this would take descriptors from those served.
  static constexpr size_t kMaxThrottled = 1024;

  const Listener& listener_;
  UniqueFd listen_fd_;
  const uint32_t slot_;
  uring::Ring& ring_;
  ConnectionQuotas& quotas_;
  NetworkMetrics& metrics_;
  ListenerMetrics listener_metrics_;
  NetworkThread thread_;
  Host& host_;

  int64_t now_ns_ = 0;
  uint32_t generation_ = 0;
  std::vector<uint32_t> armed_;  // generations of the accepts in the kernel
  bool multishot_armed_ = false;
  bool cancel_sent_ = false;
  bool releasing_ = false;
  bool closed_ = false;
  PauseReason pause_ = PauseReason::kNone;
  int64_t retry_ns_ = kNever;  // when a pause ends of itself
  int64_t next_deadline_ns_ = kNever;
  Fifo<HeldSocket> held_;
  TimingWheel throttled_;
  std::vector<std::unique_ptr<Throttled>> throttled_made_;
  TimerList throttled_free_;
  // Under load each of these comes back within milliseconds.
  LogEvery pause_log_{1};
  LogEvery error_log_{1};
  LogEvery refuse_log_;

  std::atomic<bool> room_{false};
  std::atomic<bool> stop_accepting_{false};
  std::atomic<bool> stopped_{false};
  // paused_since_ns_ < 0: not paused.
  std::atomic<int64_t> paused_before_ns_{0};
  std::atomic<int64_t> paused_since_ns_{-1};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPT_INTAKE_H_
