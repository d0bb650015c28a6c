// The threads that run handlers. Each takes a continuation first, then a run of
// requests; with neither it sleeps in the channel's event count.
//
// Threads: Start, Resize and Stop any, one at a time (a mutex); the getters any, also while
// those wait for a handler that does not get on; the workers are its own.
// Owns: its threads.  Borrows: channel, handler and clock.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_POOL_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/concurrent/mutex.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/network/request/handler_turn.h"
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
  void OnThreadStop() override { ended_.store(true, std::memory_order_release); }

  // Starts every request of the run in order and hands back those that were
  // answered meanwhile. `turn` tells what it is at.
  static void StartRun(RequestRun* run, RequestHandler& handler, const Clock& clock,
                       HandlerTurn& turn);

  // --- any thread --------------------------------------------------------------
  const HandlerTurn& turn() const { return turn_; }
  // Its thread does nothing more.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

 private:
  RequestChannel& channel_;
  RequestHandler& handler_;
  const Clock& clock_;
  LaneScheduler lanes_;
  HandlerTurn turn_;
  std::atomic<bool> ended_{false};
};

class RequestHandlerPool {
 public:
  // The threads are named `name_prefix` + "handler-" + number.
  RequestHandlerPool(int32_t thread_count, RequestChannel& channel, RequestHandler& handler,
                     const Clock& clock, absl::string_view name_prefix = "");
  ~RequestHandlerPool() { Stop(); }

  absl::Status Start();
  // Joins; runs and continuations that are still queued stay there.
  void Stop();

  // OUT_OF_RANGE unless `thread_count` is from half to double of what there is. On that
  // or any other error the number stays.
  // Shrinking returns when the handlers that go are done with what they started, or after
  // `wait_ms`: then they end in the background. Nothing is lost.
  static constexpr int64_t kLeaveWaitMs = 30'000;
  absl::Status Resize(int32_t thread_count, int64_t wait_ms = kLeaveWaitMs);
  // Ends a Resize that waits, and allows no other.
  void RefuseChanges();
  int32_t size() const;
  // Whether the caller is one of its handlers.
  bool runs_here() const;

  // What each handler is at that is at something, those that shall go included.
  using TurnVisitor =
      absl::FunctionRef<void(const std::string& thread_name, const HandlerTurn::State& turn)>;
  void ForEachTurn(TurnVisitor visit) const;

  // How long handlers slept, in all, and how many there are.
  int64_t IdleNs(int64_t now_ns, int* handler_count) const;

 private:
  struct Member {
    std::unique_ptr<HandlerWorker> worker;
    std::unique_ptr<ThreadRunner> thread;
  };

  void Add() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool changeable() const;
  // Those from `count` on; they end with what they are at.
  void Dismiss(size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True: none is left that shall go.
  bool ReapLeaving() ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);

  RequestChannel& channel_;
  RequestHandler& handler_;
  const Clock& clock_;
  const std::string name_prefix_;
  Mutex change_mutex_;   // outer: Start, Resize, Stop
  mutable Mutex mutex_;  // inner; never held while a handler is waited for
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  std::vector<Member> leaving_ ABSL_GUARDED_BY(mutex_);
  bool changeable_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_POOL_H_
