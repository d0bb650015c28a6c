// One thread's share of a workload, driven by a Worker. It owns its connections' state
// and hears of them as the connector's events.
//
// Threads: its worker's, but for Collect.
#ifndef GYRE_TOOLS_LOAD_WORKLOAD_H_
#define GYRE_TOOLS_LOAD_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/network/connector.h"
#include "tools/load/host_names.h"
#include "tools/load/options.h"
#include "tools/load/result.h"
#include "tools/load/stats.h"

namespace gyre::load {

// What the threads of one part share.
struct Part {
  Options options;
  const Clock* clock = nullptr;
  HostNames* hosts = nullptr;
  std::vector<SocketAddress> addresses;    // of --brokers
  uint32_t run = 0;                        // in every payload
  std::vector<std::string> payload_lines;  // of --payload_file
  Board board;

  const std::vector<std::string>* lines() const {
    return options.payload_file.empty() ? nullptr : &payload_lines;
  }
  // Thread i's share of something that is spread over all threads.
  int32_t Share(int32_t total, int32_t thread) const {
    return total / options.threads + (thread < total % options.threads ? 1 : 0);
  }
  Schedule MakeSchedule(const Window& window, int32_t thread) const {
    const double threads = options.threads;
    return Schedule(options.rate / threads, options.arrivals, window,
                    options.seed * 1000 + static_cast<uint64_t>(thread), thread / threads);
  }
};

class ThreadLoad : public ConnectorEvents {
 public:
  virtual ~ThreadLoad() = default;

  // Opens what has to be open before the clock starts; goes on by events.
  virtual absl::Status Open(Connector& connector) = 0;
  virtual bool ready() const = 0;
  // Why it will never be ready.
  virtual absl::Status failure() const { return absl::OkStatus(); }

  // From here on operations start at `recorder`'s window.
  virtual void Start(Recorder& recorder) = 0;
  // Does what is due; returns when to come back, at the latest.
  virtual int64_t Turn(int64_t now_ns) = 0;
  // Nothing is left to wait for.
  virtual bool Done(int64_t now_ns) const = 0;

  // The connector goes next: lets go of what belongs to it.
  virtual void LetGo() {}

  // After the worker's end, on another thread: adds its counts.
  virtual void Collect(PartResult* result) = 0;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_WORKLOAD_H_
