// Work that must run on a handler thread, posted by threads that must not run
// it themselves (timer, log-io, an appender that holds a lock). Intrusive: the
// node is in the work, so posting cannot fail and allocates nothing.
//
// Threads: Post any; `run` is called once, on a handler thread, holding no lock.
#ifndef GYRE_ENGINE_CONCURRENT_CONTINUATION_H_
#define GYRE_ENGINE_CONCURRENT_CONTINUATION_H_

#include "engine/concurrent/mpsc_queue.h"

namespace gyre {

struct Continuation : MpscNode {
  void (*run)(Continuation* self) = nullptr;
  // Instead of run(), when no handler is left: gives up what the lane's hold on
  // it keeps alive. Null: nothing.
  void (*drop)(Continuation* self) = nullptr;
};

// Implemented by network/request/request_channel; handlers take it before requests.
class ContinuationLane {
 public:
  virtual ~ContinuationLane() = default;
  // `continuation` stays alive until its run() begins; run() may free or
  // repost it.
  virtual void Post(Continuation* continuation) = 0;
  // Drops what was posted and not taken. Once the handlers have stopped.
  virtual void DropAll() {}
};

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_CONTINUATION_H_
