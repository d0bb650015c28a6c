// Between processors and handlers. Runs go through one bounded lock-free queue to
// whichever handler is free; responses go straight back to the sink that sent the
// run and cannot fail. Beside the queue lies the continuation lane, which is never
// full and is taken first.
//
// A full queue refuses: the processor parks that connection and waits for room in
// the channel's FIFO; each pop that makes room wakes the first waiting processor.
//
// Threads: TrySend, WaitForRoom processors; Post any; Take…, Park… handlers.
// Owns: nothing that passes through.  Borrows: clock, memory budget.
// Invariant: while a processor waits for room, some pop or PassRoomOn will call its
// EnqueueRoom.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_CHANNEL_H_
#define GYRE_ENGINE_NETWORK_REQUEST_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <deque>

#include "engine/base/clock.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mpmc_queue.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/concurrent/mutex.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/request_run.h"

namespace gyre {

class RequestChannel final : public ContinuationLane {
 public:
  // `capacity` runs (rounded up to a power of two). `memory` is charged with the
  // bytes of requests.
  RequestChannel(uint32_t capacity, const Clock& clock, MemoryPool& memory);

  // --- processors ------------------------------------------------------------
  // False: full; the run stays the caller's.
  bool TrySend(RequestRun* run);
  // Puts `sink` at the end of the FIFO of those waiting for room, unless it is
  // there already. The caller tries once more afterwards: room that came in
  // between was seen by nobody.
  void WaitForRoom(ResponseSink* sink);
  // A woken processor had no use for the room: the next in the FIFO gets it.
  void PassRoomOn();
  // Takes `sink` out of the FIFO; before it is destroyed.
  void ForgetWaiter(ResponseSink* sink);

  // --- any thread --------------------------------------------------------------
  void Post(Continuation* continuation) override;
  void DropAll() override;
  // A whole request holds `bytes` of the budget until ReleaseRequestBytes.
  void OnRequestCharged() { charged_requests_.fetch_add(1, std::memory_order_relaxed); }
  void ReleaseRequestBytes(int64_t bytes) {
    charged_requests_.fetch_sub(1, std::memory_order_relaxed);
    memory_.Release(bytes);
  }
  // 0: what is used of the budget is held by frames that are not whole.
  int64_t charged_requests() const { return charged_requests_.load(std::memory_order_relaxed); }
  const Clock& clock() const { return clock_; }
  MemoryPool& memory() { return memory_; }
  // Approximate.
  size_t queued_runs() const { return runs_.SizeApprox(); }

  // --- handlers ----------------------------------------------------------------
  // The oldest posted continuation; null when there is none, or when another
  // handler is taking one this instant (has_continuations() tells which).
  Continuation* TryTakeContinuation();
  bool has_continuations() const {
    return continuation_count_.load(std::memory_order_seq_cst) != 0;
  }
  RequestRun* TryTake();
  // Where idle handlers sleep: TrySend and Post notify one sleeper.
  EventCount& idle_handlers() { return idle_handlers_; }

 private:
  void WakeFirstWaiter();

  const Clock& clock_;
  MemoryPool& memory_;
  MpmcQueue<RequestRun*> runs_;
  EventCount idle_handlers_;

  MpscQueue continuations_;
  // Posted and not yet taken; what a handler looks at before it sleeps, since
  // MpscQueue::Empty is the consumer's. Raised before the push.
  std::atomic<int64_t> continuation_count_{0};
  std::atomic<int64_t> charged_requests_{0};
  std::atomic_flag taking_continuation_;  // makes the taker the one consumer

  // Mirrors waiters_.size(), so that a pop without waiters takes no lock.
  // seq_cst with the queue's cells: see WaitForRoom.
  std::atomic<int32_t> waiter_count_{0};
  Mutex mutex_;
  std::deque<ResponseSink*> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_CHANNEL_H_
