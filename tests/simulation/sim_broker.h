// A broker that can lose its machine: network layer on simulated rings, disk in
// memory, timer and log-io thread as bodies of the scheduler. Start brings up an
// incarnation on the disk as it is; Crash takes it away in the middle of
// whatever it does.
//
// Threads: one.
// Owns: the present incarnation.  Borrows: clock, network, disk, scheduler.
#ifndef GYRE_TESTS_SIMULATION_SIM_BROKER_H_
#define GYRE_TESTS_SIMULATION_SIM_BROKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/broker/broker.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "engine/fs/file_io.h"
#include "engine/timer/timer.h"
#include "engine/uring/file_ring.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_scheduler.h"
#include "tests/simulation/sim_server.h"

namespace gyre::sim {

class SimBroker {
 public:
  static constexpr char kLogDir[] = "/data";

  // `segment_bytes`: small, so that segments roll.
  SimBroker(uint64_t seed, uint16_t port, int64_t segment_bytes, FlushMode flush_mode,
            ManualClock& clock, SimNetwork& network, FaultInjectingFileSystem& disk,
            SimScheduler& scheduler);
  ~SimBroker();

  // Of the incarnations to come; without it each draws its own.
  void set_max_in_flight(int32_t count) { max_in_flight_ = count; }
  // Opens the log directory and adds its bodies to the scheduler, which holds
  // none of a former incarnation. The log-io thread is needed and stands aside
  // while this blocks.
  absl::Status Start();
  bool running() const { return incarnation_ != nullptr; }
  // The incarnation ends where it is. With kKeepEverything the process died;
  // else the machine did, and its disk is as PowerLoss leaves it.
  void Crash(PowerLossMode mode);
  // As SIGTERM: drains, records the clean stop. The scheduler runs meanwhile.
  absl::Status Stop();
  // Until then only the disk fails; what is asked of the broker is refused or
  // fails. Takes effect at the `nth` disk operation from now.
  void ScheduleDiskPowerOff(uint64_t nth) { disk_.PowerOffAt(nth); }

 private:
  // Runs operations on the spot while the one thread there is blocks for them.
  class BlockingFileIo final : public FileIo {
   public:
    explicit BlockingFileIo(FileIo& behind) : behind_(behind) {}
    void Submit(FileOperation* operation) override;
    void SetOnTheSpot(bool on_the_spot) { on_the_spot_ = on_the_spot; }

   private:
    FileIo& behind_;
    bool on_the_spot_ = true;
  };
  struct Incarnation {
    std::unique_ptr<Timer> timer;
    std::unique_ptr<uring::FileRing> file_ring;
    std::unique_ptr<BlockingFileIo> file_io;
    std::unique_ptr<SimServer> server;
    std::unique_ptr<Broker> broker;
  };

  void TakeDown();

  Random random_;
  const uint16_t port_;
  const int64_t segment_bytes_;
  const FlushMode flush_mode_;
  int32_t max_in_flight_ = 0;  // 0: drawn
  ManualClock& clock_;
  SimNetwork& network_;
  FaultInjectingFileSystem& disk_;
  SimScheduler& scheduler_;
  std::unique_ptr<Incarnation> incarnation_;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_BROKER_H_
