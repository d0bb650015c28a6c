// Takes connections off one listening socket with a multishot accept, checks the
// quotas and hands each to the processor that has the fewest.
//
// Over the per-address maximum a connection is closed at once. At the total
// maximum accepting stops: the multishot is cancelled, sockets that had completed
// meanwhile are held, unserved, and are the first to be admitted when one leaves.
// Without descriptors (EMFILE, ENFILE) accepting pauses, says so, and is armed
// again.
//
// Threads: RunOnce and Wait the owner; Stop, Wake and OnConnectionRoom any.
// Owns: its ring and the listening socket.  Borrows: processors, quotas, listener.
// Invariant: an accepted socket is handed over, held, or closed; its token goes
// with it.
#ifndef GYRE_ENGINE_NETWORK_ACCEPTOR_H_
#define GYRE_ENGINE_NETWORK_ACCEPTOR_H_

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "engine/base/log_every.h"
#include "engine/base/thread_owner.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/network/connection_quotas.h"
#include "engine/network/network_metrics.h"
#include "engine/network/processor_set.h"
#include "engine/uring/ring.h"

namespace gyre {

class Acceptor final : public ThreadBody,
                       public ThreadWaiter,
                       private ConnectionQuotas::RoomListener {
 public:
  Acceptor(const Listener& listener, UniqueFd listen_fd, std::unique_ptr<uring::Ring> ring,
           ConnectionQuotas& quotas, ProcessorSet& processors, NetworkMetrics& metrics);
  ~Acceptor() override;

  // Accepts no more, closes the listening socket and what is held. Any thread;
  // done when stopped().
  void StopAccepting();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  const absl::Status& AwaitStart() const {
    started_.wait(false, std::memory_order_acquire);
    return start_status_;
  }

  // ThreadBody, ThreadWaiter.
  void OnThreadStart() override;
  void OnThreadStop() override;
  bool RunOnce(int64_t now_ns) override;
  int64_t NextDeadlineNs() const override;
  void Wait(int64_t now_ns, int64_t deadline_ns) override;
  void Wake() override { ring_->Wake(); }

 private:
  struct Held {
    int fd = -1;
    SocketAddress peer;
  };

  void OnConnectionRoom() override;
  void OnAccept(const uring::Completion& completion) GYRE_REQUIRES_OWNER(owner_);
  // False: the total is at its maximum; the socket is still the caller's.
  bool TryHandOver(int fd, const SocketAddress& peer) GYRE_REQUIRES_OWNER(owner_);
  void AdmitHeld() GYRE_REQUIRES_OWNER(owner_);
  void MaybeArm() GYRE_REQUIRES_OWNER(owner_);
  void MaybeCancel() GYRE_REQUIRES_OWNER(owner_);
  void Pause(int error) GYRE_REQUIRES_OWNER(owner_);
  void CloseAll() GYRE_REQUIRES_OWNER(owner_);

  static constexpr int64_t kPauseNs = 100'000'000;
  static constexpr size_t kMaxCompletions = 64;
  // With less room than this, sockets are accepted one at a time, so that few
  // arrive beyond the maximum.
  static constexpr int64_t kOneShotRoom = 16;

  const Listener& listener_;
  const std::unique_ptr<uring::Ring> ring_;
  ConnectionQuotas& quotas_;
  ProcessorSet& processors_;
  NetworkMetrics& metrics_;

  ThreadOwner owner_;
  absl::Status start_status_;  // written before started_
  std::atomic<bool> started_{false};
  UniqueFd listen_fd_ ABSL_GUARDED_BY(owner_);
  std::vector<uring::Completion> completions_ ABSL_GUARDED_BY(owner_);
  size_t reaped_ ABSL_GUARDED_BY(owner_) = 0;
  int64_t now_ns_ ABSL_GUARDED_BY(owner_) = 0;
  uint32_t generation_ ABSL_GUARDED_BY(owner_) = 0;
  bool armed_ ABSL_GUARDED_BY(owner_) = false;
  bool cancel_sent_ ABSL_GUARDED_BY(owner_) = false;
  bool closed_ ABSL_GUARDED_BY(owner_) = false;
  int64_t paused_until_ns_ ABSL_GUARDED_BY(owner_) = 0;
  std::deque<Held> held_ ABSL_GUARDED_BY(owner_);
  LogEvery pause_log_;
  LogEvery refuse_log_;

  std::atomic<bool> room_{false};
  std::atomic<bool> stop_accepting_{false};
  std::atomic<bool> stopped_{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPTOR_H_
