// A bounded pool of pipes for file -> pipe -> socket transfers, leased one per
// transfer. Bounded, because a pipe per connection uses up the user's pipe
// pages near a thousand connections and then every pipe shrinks to one page.
// Whoever finds none stands in line and is granted one in turn.
//
// Threads: the ring's owner.
// Owns: the pipes that are not leased.  Borrows: the ring.
// Invariant: leased + idle <= max_pipes; nobody waits while a pipe is idle.
#ifndef GYRE_ENGINE_URING_SPLICE_PIPE_H_
#define GYRE_ENGINE_URING_SPLICE_PIPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/fifo.h"
#include "engine/uring/ring.h"

namespace gyre::uring {

class SplicePipePool {
 public:
  // A waiter is a number of the caller's, such as a connection slot.
  using Waiter = uint32_t;

  enum class LeaseOutcome : uint8_t {
    kLeased,
    kQueued,  // the waiter is in line; GrantNext() will name it
    kFailed,  // no pipe can be opened and none will come back: go without
  };
  struct Lease {
    LeaseOutcome outcome;
    PipeFds pipe;  // kLeased
  };
  struct Grant {
    Waiter waiter;
    PipeFds pipe;
  };

  // Opens pipes as they are first needed. max_pipes > 0.
  SplicePipePool(Ring& ring, size_t max_pipes, size_t pipe_capacity_bytes)
      : ring_(ring), max_pipes_(max_pipes), pipe_capacity_bytes_(pipe_capacity_bytes) {
    idle_.reserve(max_pipes);
  }
  SplicePipePool(const SplicePipePool&) = delete;
  SplicePipePool& operator=(const SplicePipePool&) = delete;
  // Closes the idle pipes; a leased one is its holder's to Discard first.
  ~SplicePipePool();

  // `waiter` is not in line already.
  Lease TryLease(Waiter waiter);
  // An empty pipe comes back.
  void Return(const PipeFds& pipe);
  // The transfer was aborted: bytes may be left in the pipe, and they belong
  // to nobody. Closes it; a new one takes its place when needed.
  void Discard(const PipeFds& pipe);
  // The waiter's connection is gone. Nothing happens when it is not in line.
  void Forget(Waiter waiter);
  // The first in line and its pipe, when there is one to give. Call it after
  // Return, Discard and Forget until it has nothing.
  std::optional<Grant> GrantNext();

  size_t leased() const { return leased_; }
  size_t idle() const { return idle_.size(); }
  size_t waiting() const { return waiters_.size(); }

 private:
  // An idle pipe, or a new one while there is room.
  std::optional<PipeFds> Take();

  Ring& ring_;
  const size_t max_pipes_;
  const size_t pipe_capacity_bytes_;
  size_t leased_ = 0;
  std::vector<PipeFds> idle_;
  Fifo<Waiter> waiters_;
};

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_SPLICE_PIPE_H_
