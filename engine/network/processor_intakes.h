// The listening sockets that a processor accepts from itself (accept_mode
// reuseport): an intake for each, on the processor's ring.
//
// Threads: the processor's; Enqueue, StopAccepting and listening any.
// Owns: its intakes.  Borrows: ring, target, waker and metrics.
// Invariant: listening() counts a listening socket from Enqueue until it is closed.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_INTAKES_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_INTAKES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/network/connection_quotas.h"
#include "engine/network/intake.h"
#include "engine/network/listener.h"
#include "engine/network/network_metrics.h"
#include "engine/network/receive_buffers.h"
#include "engine/uring/ring.h"

namespace gyre {

// A listening socket on its way to the processor that shall accept from it.
struct ListenSocketHandover : MpscNode {
  UniqueFd listen_fd;
  const Listener* listener = nullptr;
  ConnectionQuotas* quotas = nullptr;
};

class ProcessorIntakes final : private Intake::Host {
 public:
  // `target` gets the admitted connections; it is the processor itself.
  ProcessorIntakes(uring::Ring& ring, NetworkMetrics& metrics, ConnectionTarget& target,
                   Waker& waker)
      : ring_(ring), metrics_(metrics), target_(target), waker_(waker) {}
  ~ProcessorIntakes();
  ProcessorIntakes(const ProcessorIntakes&) = delete;
  ProcessorIntakes& operator=(const ProcessorIntakes&) = delete;

  // --- any thread ------------------------------------------------------------------
  void Enqueue(std::unique_ptr<ListenSocketHandover> socket);
  // Every listening socket is closed; done when listening() is 0.
  void StopAccepting();
  int32_t listening() const { return listening_.load(std::memory_order_acquire); }

  // --- the processor's thread --------------------------------------------------------
  // A completion of kind kAccept.
  void OnCompletion(const uring::Completion& completion, int64_t now_ns);
  // True: something was done.
  bool RunOnce(int64_t now_ns);
  int64_t NextDeadlineNs() const;
  // Nothing waits for RunOnce.
  bool AtRest() const { return !news_.load(std::memory_order_seq_cst); }
  void Abandon();

 private:
  // Intake::Host.
  void OnAdmitted(std::unique_ptr<NewConnection> connection) override;
  void WakeForIntake() override;

  uring::Ring& ring_;
  NetworkMetrics& metrics_;
  ConnectionTarget& target_;
  Waker& waker_;
  // [i] has slot i; null once it has stopped.
  std::vector<std::unique_ptr<Intake>> intakes_;
  bool completed_ = false;  // completions since the last RunOnce

  MpscQueue sockets_;
  std::atomic<bool> news_{false};
  std::atomic<bool> stop_accepting_{false};
  std::atomic<int32_t> listening_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_INTAKES_H_
