// The thread that accepts for a listener: an intake on a ring of its own, whose
// connections go to the processor that has the fewest.
//
// Threads: RunOnce and Wait the owner; StopAccepting, stopped and Wake any.
// Owns: its ring and its intake.  Borrows: processor set, quotas, listener, metrics.
#ifndef GYRE_ENGINE_NETWORK_ACCEPT_ACCEPTOR_H_
#define GYRE_ENGINE_NETWORK_ACCEPT_ACCEPTOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/thread_owner.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/network/accept/intake.h"
#include "engine/network/accept/processor_set.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/connection/new_connection.h"
#include "engine/network/listener.h"
#include "engine/network/network_metrics.h"
#include "engine/uring/ring.h"

namespace gyre {

class Acceptor final : public ThreadBody, public ThreadWaiter, private Intake::Host {
 public:
  Acceptor(const Listener& listener, UniqueFd listen_fd, std::unique_ptr<uring::Ring> ring,
           ConnectionQuotas& quotas, ProcessorSet& processors, NetworkMetrics& metrics);
  ~Acceptor() override;

  // Accepts no more, closes the listening socket and what is held. Any thread;
  // done when stopped().
  void StopAccepting() { intake_.StopAccepting(); }
  bool stopped() const { return intake_.stopped(); }
  int64_t paused_ns(int64_t now_ns) const { return intake_.paused_ns(now_ns); }
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
  // Intake::Host.
  void OnAdmitted(NewConnection connection) override;
  void WakeForIntake() override { ring_->Wake(); }

  static constexpr size_t kMaxCompletions = 64;

  const std::unique_ptr<uring::Ring> ring_;
  ProcessorSet& processors_;
  NetworkMetrics& metrics_;
  NetworkThread thread_;

  ThreadOwner owner_;
  absl::Status start_status_;  // written before started_
  std::atomic<bool> started_{false};
  Intake intake_;
  std::vector<uring::Completion> completions_ ABSL_GUARDED_BY(owner_);
  size_t reaped_ ABSL_GUARDED_BY(owner_) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPT_ACCEPTOR_H_
