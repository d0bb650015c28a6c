// Looks after a process until it serves, which may take minutes (recovery of large
// logs, thousands of sockets), from a thread of its own: a signal that asks
// for the end ends it on the spot, because nobody is served yet; and the service manager
// hears again and again that it gets on, so that a long start is not taken for a hung one.
//
//   const StopSignals signals;
//   StartWatch watch(signals, manager, "ended by a signal\n");
//   GYRE_RETURN_IF_ERROR(watch.Start());
//   …                          // the start
//   watch.Stop();              // what asks for the end now waits for signals.Wait()
//
// There are no handlers, which every thread made meanwhile would have to block.
//
// Threads: made and stopped by one.
// Owns: its thread.  Borrows: both.
#ifndef GYRE_ENGINE_PROCESS_START_WATCH_H_
#define GYRE_ENGINE_PROCESS_START_WATCH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/process/service_notifier.h"
#include "engine/process/stop_signals.h"
#include "engine/process/wake_fd.h"

namespace gyre {

class StartWatch final : private ThreadBody, private ThreadWaiter {
 public:
  // `last_words`: a line on standard error when a signal ends the process.
  StartWatch(const StopSignals& signals, const ServiceNotifier& manager, std::string last_words);
  ~StartWatch() override;

  // RESOURCE_EXHAUSTED when the system allows no more threads.
  absl::Status Start() { return thread_.Start(); }
  // The start is over.
  void Stop() { thread_.Stop(); }

 private:
  bool RunOnce(int64_t now_ns) override;
  int64_t NextDeadlineNs() const override { return next_extension_ns_; }
  void Wait(int64_t now_ns, int64_t deadline_ns) override;
  void Wake() override;

  const StopSignals& signals_;
  const ServiceNotifier& manager_;
  const std::string last_words_;
  const UniqueFd signal_fd_;
  const WakeFd wake_;
  int64_t next_extension_ns_;  // the thread's
  ThreadRunner thread_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_START_WATCH_H_
