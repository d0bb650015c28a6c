// The signals that ask a server to end, taken by its main thread when it waits for
// them instead of by a handler: SIGINT, SIGTERM, and SIGHUP unless it is ignored, as
// under nohup.
//
//   StopSignals signals;      // before the first thread
//   …                         // start the server
//   signals.Wait();
//   server.Drain(…);
//
// Threads: made by the main thread before it starts others, which inherit the mask;
// then used by it.
// Owns: the process's disposition of these signals. One at a time.
#ifndef GYRE_ENGINE_PROCESS_STOP_SIGNALS_H_
#define GYRE_ENGINE_PROCESS_STOP_SIGNALS_H_

#include <csignal>
#include <initializer_list>

#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"

namespace gyre {

class StopSignals {
 public:
  // Blocks them, and `others`, which Wait returns as well.
  explicit StopSignals(std::initializer_list<int> others = {});
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came first, waiting for one.
  int Wait() const;
  // Takes one that has come and asks for the end; 0: there is none.
  int TryTake() const;
  // Readable while one is there to be taken. Not valid without a descriptor left.
  UniqueFd Descriptor() const;
  // Ends the process as `signal` does which nobody handles, after `last_words` on standard
  // error. Also in a signal's handler.
  [[noreturn]] static void End(int signal, absl::string_view last_words);
  // Whether `signal` asks for the end, and is none of the others.
  bool Asks(int signal) const { return sigismember(&stop_, signal) == 1; }

  // From now on a signal that asks for the end ends the process on the spot, after
  // `last_words` (a literal) on standard error; null for none.
  void EndAtNext(const char* last_words) const;
  // After it: they wait to be taken again.
  void Hold() const;

 private:
  sigset_t stop_;
  sigset_t all_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_STOP_SIGNALS_H_
