// When operations are due. In open loop the times come from a rate and from nothing else:
// a server that stalls does not stop the clock, and what it held up is late from the time
// it was meant to start. In closed loop an operation is due as soon as there is room.
//
// It also tells whose fault a late start is: blocked (every connection busy, so the
// server's) or the generator's own.
//
// Threads: one at a time.
#ifndef GYRE_TOOLS_LOAD_SCHEDULE_H_
#define GYRE_TOOLS_LOAD_SCHEDULE_H_

#include <cstdint>
#include <optional>

#include "engine/base/random.h"

namespace gyre::load {

enum class Arrivals : uint8_t {
  kConstant,  // evenly spaced
  kPoisson,   // exponential gaps, as of many independent users
};

// Times in nanoseconds of the run's clock. [start, warm_end) is warm-up.
struct Window {
  int64_t start_ns = 0;
  int64_t warm_end_ns = 0;
  int64_t end_ns = 0;
};

class Schedule {
 public:
  // Nothing is ever due.
  Schedule() : Schedule(0, Arrivals::kConstant, Window(), 0, 0) {}
  // `per_second` 0: closed loop. `phase` in [0, 1) shifts constant arrivals by a part of a
  // gap, so that the threads of a run do not fire at once.
  Schedule(double per_second, Arrivals arrivals, const Window& window, uint64_t seed, double phase);

  bool is_open_loop() const { return gap_ns_ > 0; }
  // The intended start of the operation that may start at `now_ns`; nullopt: none is due.
  // Take it by Started, or call NoteBlocked.
  std::optional<int64_t> Due(int64_t now_ns) const;
  void Started();
  // Everything that was to start before the end did.
  bool Exhausted(int64_t now_ns) const;
  // When something is next due, or the window ends; INT64_MAX after all that.
  int64_t NextNs(int64_t now_ns) const;

  // An operation was due and there was no room for it.
  void NoteBlocked() { blocked_ = true; }
  // There is room again.
  void NoteRoom(int64_t now_ns) {
    if (blocked_) room_since_ns_ = now_ns;
    blocked_ = false;
  }
  // The part of a late start that was the generator's own.
  int64_t OwnDelayNs(int64_t intended_ns, int64_t now_ns) const {
    const int64_t possible_ns = intended_ns > room_since_ns_ ? intended_ns : room_since_ns_;
    return now_ns > possible_ns ? now_ns - possible_ns : 0;
  }

 private:
  void Draw();

  Window window_;
  double gap_ns_;
  Arrivals arrivals_;
  double phase_;
  Random random_;
  int64_t index_ = 0;
  double elapsed_ns_ = 0;  // Poisson: from the start to the next one
  int64_t next_ns_;
  bool blocked_ = false;
  int64_t room_since_ns_ = 0;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_SCHEDULE_H_
