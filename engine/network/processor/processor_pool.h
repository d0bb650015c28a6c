// The processors of one set and their threads, from the first to the last: started
// together, grown and shrunk while they serve, stopped together.
//
// Shrinking takes nothing from a peer: the processors that go are given no more
// connections, theirs move to the ones that stay as soon as no request of theirs is
// under way, and only then their threads end and their rings are freed.
//
// Threads: any; Resize, Reap and Stop take turns.
// Owns: processors, their seats and threads.  Borrows: what its config names.
// Invariant: there is at least one active processor between Start and Stop.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_POOL_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/network/accept/processor_set.h"
#include "engine/network/processor/control_mailbox.h"
#include "engine/network/processor/processor.h"
#include "engine/network/processor/processor_intakes.h"
#include "engine/network/processor/processor_seat.h"
#include "engine/network/server_options.h"

namespace gyre {

class ProcessorPool {
 public:
  struct Config {
    std::string thread_name_prefix;
    ProcessorOptions options;
    RingFactory ring_factory;
    // Seats are numbered through the whole server.
    std::atomic<int>* next_index = nullptr;
    // A shrinking Resize waits this long for requests under way; what takes longer
    // ends in the background.
    int64_t retire_wait_ms = 30'000;
  };

  ProcessorPool(Config config, const Processor::Shared& shared, const Clock& clock);
  ~ProcessorPool();
  ProcessorPool(const ProcessorPool&) = delete;
  ProcessorPool& operator=(const ProcessorPool&) = delete;

  // Makes `count` processors; their receive memory comes from the slab's runs as far
  // as there is any.
  absl::Status Open(int32_t count);
  // Starts their threads.
  absl::Status Start();
  // What registering the slab with their rings said. After Start.
  absl::Status registered_buffers() const;

  // Where connections are placed.
  ProcessorSet& set() { return set_; }
  int32_t size() const;
  int64_t open_connections() const { return set_.open_connections(); }
  bool running() const;
  // Whether the caller is on one of its threads.
  bool runs_here() const;

  void StopAccepting();
  bool accepting() const;

  // OUT_OF_RANGE with the valid range against Kafka's rule; FAILED_PRECONDITION
  // while draining or stopped.
  absl::Status CheckResize(int32_t count) const;
  // CheckResize; beside its errors RESOURCE_EXHAUSTED and the like from a new ring or
  // thread, after which there are as many as before. Grown: the others hand over what
  // they have above their share.
  absl::Status Resize(int32_t count);
  // Ends what retired since. Resize does it, too.
  void Reap();

  // As Processor's, for all, those that retire included.
  void SetConnectionOptions(const ConnectionOptions& options);
  void AddTo(const std::shared_ptr<ConnectionList>& list);
  void BeginDrain();
  void CloseAll();
  // What handlers, or who answers for them, have not given back: requests to answer and
  // throttle tokens. After Stop, and the handlers'.
  int64_t HeldByHandlers() const;
  // Ends a Resize that waits, then joins every thread.
  void Stop();

 private:
  struct Member {
    std::unique_ptr<ProcessorSeat> seat;
    std::unique_ptr<Processor> processor;
    std::unique_ptr<ThreadRunner> thread;
  };

  absl::Status Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  absl::Status StartMember(const Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  void Shrink(size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  // True: none is left that retires.
  bool ReapRetired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  bool started() const;
  bool closing() const;

  const Config config_;
  const Processor::Shared shared_;
  const Clock& clock_;
  ProcessorSet set_;

  mutable Mutex turn_;  // outer: Open, Start, Resize, Reap, Stop
  std::vector<std::unique_ptr<ProcessorSeat>> free_seats_ ABSL_GUARDED_BY(turn_);

  mutable Mutex mutex_;  // inner; never held while waiting
  std::vector<Member> active_ ABSL_GUARDED_BY(mutex_);
  std::vector<Member> retiring_ ABSL_GUARDED_BY(mutex_);
  ConnectionOptions connection_options_ ABSL_GUARDED_BY(mutex_);
  absl::Status registered_buffers_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_POOL_H_
