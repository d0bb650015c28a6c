// Gives what the heap keeps of freed memory back to the kernel. Each thread's heap keeps
// as much as it held at most, so where memory moves from one use to another (bytes that
// wait, answers) the process would come to hold the sum of the peaks and not the peak of
// the sum, which is what the memory limit bounds.
//
// Threads: Request any; the work is done on a handler thread, for it takes milliseconds.
// Borrows: the lane.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_HEAP_TRIM_H_
#define GYRE_ENGINE_NETWORK_REQUEST_HEAP_TRIM_H_

#include <atomic>

#include "engine/concurrent/continuation.h"

namespace gyre {

class HeapTrim final : private Continuation {
 public:
  explicit HeapTrim(ContinuationLane& lane) : lane_(lane) { run = &HeapTrim::Trim; }
  HeapTrim(const HeapTrim&) = delete;
  HeapTrim& operator=(const HeapTrim&) = delete;

  // Soon, once for all requests until then.
  void Request() {
    if (!requested_.exchange(true, std::memory_order_acq_rel)) lane_.Post(this);
  }

 private:
  static void Trim(Continuation* self);

  ContinuationLane& lane_;
  std::atomic<bool> requested_{false};  // posted, and not begun
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_HEAP_TRIM_H_
