// The threads that run handlers. Each takes a continuation first, then a run of
// requests; with neither it sleeps in the channel's event count.
//
// Threads: Start, Resize and Stop any, one at a time (a mutex); the workers are its own.
// Owns: its threads.  Borrows: channel, handler and clock.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_POOL_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/network/request/request_channel.h"
#include "engine/network/request/request_handler.h"

namespace gyre {

// One handler thread's body; the simulation calls RunOnce itself.
class HandlerWorker final : public ThreadBody {
 public:
  HandlerWorker(RequestChannel& channel, RequestHandler& handler, const Clock& clock)
      : channel_(channel), handler_(handler), clock_(clock) {}

  // One continuation, or one run.
  bool RunOnce(int64_t now_ns) override;

  // Starts every request of the run in order and hands back those that were
  // answered meanwhile.
  static void StartRun(RequestRun* run, RequestHandler& handler, const Clock& clock);

 private:
  RequestChannel& channel_;
  RequestHandler& handler_;
  const Clock& clock_;
  LaneScheduler lanes_;
};

class RequestHandlerPool {
 public:
  // The threads are named `name_prefix` + "handler-" + number.
  RequestHandlerPool(int32_t thread_count, RequestChannel& channel, RequestHandler& handler,
                     const Clock& clock, absl::string_view name_prefix = "");
  ~RequestHandlerPool() { Stop(); }

  void Start();
  // Joins; runs and continuations that are still queued stay there.
  void Stop();

  // OUT_OF_RANGE unless `thread_count` is from half to double of what there is.
  // Shrinking returns when the handlers that go are done with what they started;
  // nothing is lost.
  absl::Status Resize(int32_t thread_count);
  int32_t size() const;

  // How long handlers slept, in all, and how many there are.
  int64_t IdleNs(int64_t now_ns, int* handler_count) const;

 private:
  struct Member {
    std::unique_ptr<HandlerWorker> worker;
    std::unique_ptr<ThreadRunner> thread;
  };

  void Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  RequestChannel& channel_;
  RequestHandler& handler_;
  const Clock& clock_;
  const std::string name_prefix_;
  mutable Mutex mutex_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_POOL_H_
