// What other threads touch of a processor: the mailboxes, the flag that says it is
// parked, and the blocks of its receive buffers. A thread that put the last answer
// in may still stand between the push and the wake when the processor has long
// handled it, moved its connections away and ended; so the seat stays, and the next
// processor that is started takes it.
//
// Threads: Enqueue…, WakeIfParked, open_connections any; the rest the processor of the moment,
// or, while there is none, one controlling thread.
// Owns: receive memory of its own, where it was given none.  Borrows: slab runs.
// Invariant: the pushes and the parked flag are seq_cst: a producer that does not
// see `parked_` is seen by the processor's last look at the mailboxes.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_SEAT_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_SEAT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/base/limits.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/metrics/counter.h"
#include "engine/network/accept/listen_socket_handover.h"
#include "engine/network/connection/new_connection.h"
#include "engine/network/network_metrics.h"
#include "engine/network/processor/receive_buffers.h"
#include "engine/network/request/request_run.h"
#include "engine/network/server_options.h"
#include "engine/uring/ring.h"

namespace gyre {

class ProcessorSeat final : public ResponseSink, public ConnectionTarget, public Waker {
 public:
  // `receive_base` has room for the options' receive buffers; null: the seat maps
  // its own.
  ProcessorSeat(int index, const ProcessorOptions& options, char* receive_base);
  ProcessorSeat(const ProcessorSeat&) = delete;
  ProcessorSeat& operator=(const ProcessorSeat&) = delete;
  ~ProcessorSeat();

  // --- any thread --------------------------------------------------------------
  void EnqueueConnection(NewConnection connection) override;
  void EnqueueResponse(ConnectionRequest* request) override;
  void EnqueueThrottle(ThrottleSignal* signal) override;
  void EnqueueRunStarted(RequestRun* run) override;
  void EnqueueRoom(int lane) override;
  void EnqueueShed() override;
  void EnqueueStallCheck() override;
  void EnqueueListenSocket(std::unique_ptr<ListenSocketHandover> socket) override;
  void EnqueueGranted(MpscNode* wait);
  void WakeIfParked() override;
  int64_t open_connections() const override {
    return open_connections_.load(std::memory_order_acquire);
  }
  const std::atomic<int64_t>& open_connection_count() const { return open_connections_; }
  int32_t listening_sockets() const override {
    return listening_sockets_.load(std::memory_order_acquire);
  }
  int index() const { return index_; }

  // --- the processor of the moment -------------------------------------------------
  // From here on wakes go to `ring`; the seat is empty.
  // The first one makes the count of what waits here, of `metrics`, the server's.
  void Take(uring::Ring& ring, NetworkMetrics& metrics);
  Gauge responses_queued() const { return responses_queued_; }
  // No thread touches the ring any more when it returns. The owner's thread has
  // ended, or never ran. `generation` is above that of every connection it had.
  void Leave(uint32_t generation);
  // Where the generations of the next processor's connections begin: what still
  // names a connection of an earlier one must not find another.
  uint32_t first_generation() const { return first_generation_; }
  void Park() { parked_.store(true, std::memory_order_seq_cst); }
  void Unpark() { parked_.store(false, std::memory_order_seq_cst); }
  void OnConnectionLeft() { open_connections_.fetch_sub(1, std::memory_order_acq_rel); }
  // False: nothing waits, a half-pushed element included.
  bool HasMail() const;
  ResponseNode* PopResponse();
  RequestRun* PopRunStarted();
  MpscNode* PopGranted() { return granted_.Pop(); }
  bool TryPopConnection(NewConnection* connection) { return new_connections_.TryPop(connection); }
  std::unique_ptr<ListenSocketHandover> PopListenSocket();
  void OnListenSocketLeft() { listening_sockets_.fetch_sub(1, std::memory_order_acq_rel); }
  // The lanes of which room was told since the last call, a bit for each.
  uint32_t TakeRoom() { return room_.load(std::memory_order_seq_cst) == 0 ? 0 : room_.exchange(0); }
  // True: a connection shall be closed, since the last call.
  bool TakeShed() { return shed_.load(std::memory_order_seq_cst) && shed_.exchange(false); }
  bool TakeStallCheck() {
    return stall_check_.load(std::memory_order_seq_cst) && stall_check_.exchange(false);
  }
  void WantShed() { shed_.store(true, std::memory_order_seq_cst); }
  ReceiveBuffers& receive_buffers() { return *receive_buffers_; }
  const ReceiveBuffers& receive_buffers() const { return *receive_buffers_; }

 private:
  void DropResponses();

  const int index_;
  const size_t own_bytes_;  // of receive memory; 0: it is borrowed
  char* const own_base_;
  const std::unique_ptr<ReceiveBuffers> receive_buffers_;
  uint32_t first_generation_ = 0;

  NewConnectionQueue new_connections_;
  MpscQueue listen_sockets_;
  MpscQueue responses_;
  MpscQueue started_runs_;
  MpscQueue granted_;
  std::atomic<uint32_t> room_{0};
  std::atomic<bool> shed_{false};
  std::atomic<bool> stall_check_{false};
  alignas(kCacheLineBytes) std::atomic<bool> parked_{false};
  // Threads that may be about to wake the ring. Raised before `parked_` is taken
  // down, so that Leave sees every one that can have taken it down.
  std::atomic<int32_t> wakers_{0};
  std::atomic<uring::Ring*> ring_{nullptr};
  bool is_counted_ = false;
  Gauge responses_queued_;  // written before anything is pushed
  std::atomic<int64_t> open_connections_{0};
  std::atomic<int32_t> listening_sockets_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_SEAT_H_
