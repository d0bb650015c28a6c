// Waits for what tells nobody when it is so, by looking now and then: for who shuts down,
// or changes how many threads there are. Nothing on the data path does.
//
// Threads: any; it sleeps.
#ifndef GYRE_ENGINE_CONCURRENT_POLL_UNTIL_H_
#define GYRE_ENGINE_CONCURRENT_POLL_UNTIL_H_

#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/functional/function_ref.h"

namespace gyre {

// True once `done` is; false when it is not and `deadline_ms` of real time have passed since
// the call, however long the sleeps between took. Looks at least once.
inline bool PollUntil(absl::FunctionRef<bool()> done, int64_t deadline_ms) {
  using std::chrono::milliseconds;
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (done()) return true;
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (std::chrono::duration_cast<milliseconds>(passed).count() >= deadline_ms) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_POLL_UNTIL_H_
