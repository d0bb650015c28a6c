// Calls the bodies of the engine's threads one at a time, in an order drawn
// from a seed, and moves the clock: a run of many threads that happens in one,
// and again exactly so for the same seed.
//
// Threads: one.
// Borrows: everything it calls, and the clock.
#ifndef GYRE_TESTS_SIMULATION_SIM_SCHEDULER_H_
#define GYRE_TESTS_SIMULATION_SIM_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/concurrent/thread_runner.h"

namespace gyre::sim {

class SimScheduler {
 public:
  SimScheduler(uint64_t seed, ManualClock& clock) : random_(seed), clock_(clock) {}

  // `step` does a little and says whether it did anything.
  void Add(std::string name, std::function<bool()> step) {
    actors_.push_back({std::move(name), std::move(step), nullptr});
  }
  // A thread: one turn, and if that found nothing to do, a wait that does not
  // wait, as after a wake-up without a reason.
  void AddThread(std::string name, ThreadBody& body, ThreadWaiter* waiter = nullptr) {
    Actor& actor = AddActor();
    actor = {std::move(name),
             [this, &body, waiter] {
               const int64_t now_ns = clock_.NowNs();
               if (body.RunOnce(now_ns)) return true;
               if (waiter != nullptr) waiter->Wait(now_ns, now_ns);
               return false;
             },
             &body};
  }
  // The thread has ended. Not called by its own step.
  void RemoveThread(const ThreadBody& body) {
    for (Actor& actor : actors_) {
      if (actor.body == &body) actor = {"", [] { return false; }, nullptr};
    }
  }
  void Clear() { actors_.clear(); }

  // Until `done` or `max_steps`; the answer is done's. While nobody finds
  // anything to do, time passes faster.
  bool RunUntil(const std::function<bool()>& done, uint64_t max_steps) {
    uint64_t idle_steps = 0;
    for (uint64_t step = 0; step < max_steps; ++step) {
      if (done()) return true;
      Actor& actor = actors_[random_.Below(actors_.size())];
      idle_steps = actor.step() ? 0 : idle_steps + 1;
      clock_.AdvanceNs(static_cast<int64_t>(random_.Below(10'000)));
      if (idle_steps > 8 * actors_.size()) {
        clock_.AdvanceMs(1);
        idle_steps = 0;
      }
      ++steps_;
    }
    return done();
  }
  uint64_t steps() const { return steps_; }

 private:
  struct Actor {
    std::string name;
    std::function<bool()> step;
    const ThreadBody* body = nullptr;
  };

  // In the place of one that has ended, so that those do not take everybody's turns.
  Actor& AddActor() {
    for (Actor& actor : actors_) {
      if (actor.name.empty()) return actor;
    }
    return actors_.emplace_back();
  }

  Random random_;
  ManualClock& clock_;
  // Grows while a step runs, which must not move.
  std::deque<Actor> actors_;
  uint64_t steps_ = 0;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_SCHEDULER_H_
