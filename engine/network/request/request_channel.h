// Between processors and handlers. Runs go through bounded lock-free queues, one for
// each lane, to whichever handler is free; responses go straight back to the sink
// that sent the run and cannot fail. Beside the lanes lies that of continuations,
// which is never full and is taken first.
//
// A full lane refuses: the processor parks that connection and waits for room in
// the lane's FIFO; each pop that makes room wakes the first waiting processor. Other
// lanes go on. What a lane is for is the business of RequestHandler::LaneOf.
//
// Threads: TrySend, WaitForRoom processors; Post, SetLaneWeight any; Take… handlers.
// Owns: nothing that passes through.  Borrows: clock, memory budget.
// Invariant: while a processor waits for room, some pop or PassRoomOn will call its
// EnqueueRoom.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_CHANNEL_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/fifo.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/event_count.h"
#include "engine/concurrent/mpmc_queue.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/concurrent/mutex.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/request/heap_trim.h"
#include "engine/network/request/lane_scheduler.h"
#include "engine/network/request/request_run.h"
#include "engine/network/request_lane.h"

namespace gyre {

class RequestChannel final : public ContinuationLane {
 public:
  // `capacity` runs (rounded up to a power of two) in each lane, of which there are
  // at most kMaxLanes; none given: one. `memory` is charged with the bytes of requests.
  RequestChannel(uint32_t capacity, const Clock& clock, MemoryPool& memory,
                 const std::vector<RequestLaneOptions>& lanes = {});

  int lane_count() const { return static_cast<int>(lanes_.size()); }
  const std::string& lane_name(int lane) const { return lanes_[Index(lane)]->name; }

  // --- processors ------------------------------------------------------------
  // False: its lane is full; the run stays the caller's. No sleeping handler learns of
  // it until WakeHandlers, which the caller owes before it waits itself.
  bool TrySend(RequestRun* run);
  // `runs` were sent since the last call: as many sleepers are woken, at once. One wake
  // for each run would let a handler that shares the sender's core run in between.
  void WakeHandlers(uint32_t runs) { idle_handlers_.Notify(runs); }
  // Puts `sink` at the end of the FIFO of those waiting for room in the lane, unless
  // it is there already. The caller tries once more afterwards: room that came in
  // between was seen by nobody.
  void WaitForRoom(ResponseSink* sink, int lane);
  // A woken processor had no use for the room: the next in the FIFO gets it.
  void PassRoomOn(int lane);
  // Takes `sink` out of every FIFO; before it is destroyed.
  void ForgetWaiter(ResponseSink* sink);

  // --- any thread --------------------------------------------------------------
  // Takes effect with each handler's next turn of the lane.
  void SetLaneWeight(int lane, int32_t weight) {
    lanes_[Index(lane)]->weight.store(weight, std::memory_order_relaxed);
  }
  int32_t lane_weight(int lane) const {
    return lanes_[Index(lane)]->weight.load(std::memory_order_relaxed);
  }
  void Post(Continuation* continuation) override;
  void DropAll() override;
  const Clock& clock() const { return clock_; }
  MemoryPool& memory() { return memory_; }
  HeapTrim& heap_trim() { return heap_trim_; }
  // Approximate.
  size_t queued_runs() const;
  size_t queued_runs(int lane) const { return lanes_[Index(lane)]->runs.SizeApprox(); }

  // --- handlers ----------------------------------------------------------------
  // The oldest posted continuation; null when there is none, or when another
  // handler is taking one this instant (has_continuations() tells which).
  Continuation* TryTakeContinuation();
  bool has_continuations() const {
    return continuation_count_.load(std::memory_order_seq_cst) != 0;
  }
  // `scheduler` is the caller's, always the same.
  RequestRun* TryTake(LaneScheduler& scheduler);
  // Where idle handlers sleep.
  EventCount& idle_handlers() { return idle_handlers_; }

 private:
  struct Lane {
    Lane(const RequestLaneOptions& options, uint32_t capacity)
        : name(options.name), weight(options.weight), runs(capacity) {}

    const std::string name;
    std::atomic<int32_t> weight;
    MpmcQueue<RequestRun*> runs;
    // Mirrors waiters.size(), so that a pop without waiters takes no lock.
    // seq_cst with the queue's cells: see WaitForRoom.
    std::atomic<int32_t> waiter_count{0};
    Fifo<ResponseSink*> waiters;  // guarded by the channel's mutex_
  };

  static size_t Index(int lane) { return static_cast<size_t>(lane); }
  RequestRun* TryTakeFrom(int lane);
  void WakeFirstWaiter(int lane);

  const Clock& clock_;
  MemoryPool& memory_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  EventCount idle_handlers_;

  MpscQueue continuations_;
  // Posted and not yet taken; what a handler looks at before it sleeps, since
  // MpscQueue::Empty is the consumer's. Raised before the push.
  std::atomic<int64_t> continuation_count_{0};
  HeapTrim heap_trim_{*this};
  std::atomic_flag taking_continuation_;  // makes the taker the one consumer

  Mutex mutex_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_CHANNEL_H_
