// What the runs of a simulated server have in common: a clock, a network whose sockets
// are small and cut transfers short, a scheduler, and the way from the first client to
// the last byte given back. All of it is drawn from the seed.
//
// Threads: one.
#ifndef GYRE_TESTS_SIMULATION_SIM_RUN_H_
#define GYRE_TESTS_SIMULATION_SIM_RUN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "gtest/gtest.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_scheduler.h"
#include "tests/simulation/sim_server.h"

namespace gyre::sim {

class SimRun {
 public:
  explicit SimRun(uint64_t seed)
      : random(seed),
        network(random.Next(), {.socket_buffer_bytes = 512u << random.Below(4),
                                .short_transfer_one_in = 1 + random.Below(8)}),
        scheduler(random.Next(), clock) {}

  // `wires` deliver what was sent.
  void AddNetwork(int wires) {
    for (int i = 0; i < wires; ++i) scheduler.Add("wire", [this] { return network.RunOnce(); });
  }
  // Now and then a connection is reset.
  void AddResets(uint64_t one_in) {
    scheduler.Add("resets", [this, one_in] {
      if (random.OneIn(one_in)) network.ResetOne();
      return false;
    });
  }
  template <typename Client>
  void AddClient(Client* client) {
    scheduler.Add("client", [client] { return client->Step(); });
  }
  // True: every client was done within so many steps.
  template <typename Client>
  bool Serve(const std::vector<std::unique_ptr<Client>>& clients, uint64_t max_steps) {
    return scheduler.RunUntil(
        [&clients] {
          return std::all_of(clients.begin(), clients.end(),
                             [](const auto& client) { return client->done(); });
        },
        max_steps);
  }
  void Stop(SimServer& server, bool drain) {
    server.BeginStop(drain);
    EXPECT_TRUE(scheduler.RunUntil([&server] { return server.stopped(); }, 1'000'000))
        << "does not stop";
    // Answers may still be with the handlers.
    GoOn(5'000);
  }
  void GoOn(uint64_t steps) {
    scheduler.RunUntil([] { return false; }, steps);
  }

  Random random;
  ManualClock clock;
  SimNetwork network;
  SimScheduler scheduler;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_RUN_H_
