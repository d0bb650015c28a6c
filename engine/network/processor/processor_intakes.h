// The listening sockets that a processor accepts from itself (accept_mode
// reuseport): an intake for each, on the processor's ring.
//
// Threads: the processor's; StopAccepting any.
// Owns: its intakes.  Borrows: ring, seat and metrics; the set it moves sockets to.
// Invariant: the seat counts a listening socket from its arrival until it is closed or
// has been placed elsewhere.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_INTAKES_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_INTAKES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/network/accept/intake.h"
#include "engine/network/accept/listen_socket_handover.h"
#include "engine/network/accept/processor_set.h"
#include "engine/network/connection/new_connection.h"
#include "engine/network/network_metrics.h"
#include "engine/network/processor/processor_seat.h"
#include "engine/uring/ring.h"

namespace gyre {

class ProcessorIntakes final : private Intake::Host {
 public:
  // The seat's connections are the processor's own.
  ProcessorIntakes(uring::Ring& ring, NetworkMetrics& metrics, ProcessorSeat& seat)
      : ring_(ring), metrics_(metrics), seat_(seat) {}
  ProcessorIntakes(const ProcessorIntakes&) = delete;
  ProcessorIntakes& operator=(const ProcessorIntakes&) = delete;

  // Any thread. Every listening socket is closed; done when the seat has none.
  void StopAccepting();

  // --- the processor's thread --------------------------------------------------------
  // A completion of kind kAccept.
  void OnCompletion(const uring::Completion& completion, int64_t now_ns);
  // True: something was done.
  bool RunOnce(int64_t now_ns);
  int64_t NextDeadlineNs() const;
  // Nothing but the seat's mail waits for RunOnce.
  bool AtRest() const { return !news_.load(std::memory_order_seq_cst); }
  // Every listening socket, those that still come included, goes to another of the set,
  // of which this processor is no member any more.
  void MoveTo(ProcessorSet* others);
  // What is more than its share goes to others of the set.
  void MoveSurplusTo(ProcessorSet* set);
  void Abandon();

 private:
  // Intake::Host.
  void OnAdmitted(NewConnection connection) override;
  void WakeForIntake() override;
  void Add(std::unique_ptr<ListenSocketHandover> socket);

  uring::Ring& ring_;
  NetworkMetrics& metrics_;
  ProcessorSeat& seat_;
  // [i] has slot i; null when it has stopped or moved.
  std::vector<std::unique_ptr<Intake>> intakes_;
  bool completed_ = false;           // completions since the last RunOnce
  bool leaving_ = false;             // what comes is passed on
  ProcessorSet* move_to_ = nullptr;  // where released sockets go

  std::atomic<bool> news_{false};
  std::atomic<bool> stop_accepting_{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_INTAKES_H_
