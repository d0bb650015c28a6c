// The engine's network layer, as socket_server builds it, on simulated rings
// and without threads: its bodies are given to a scheduler.
//
// Threads: one.
// Owns: acceptor, processors, channel, handler workers and their memory.
// Borrows: network, scheduler's clock and handler; they outlive it.
#ifndef GYRE_TESTS_SIMULATION_SIM_SERVER_H_
#define GYRE_TESTS_SIMULATION_SIM_SERVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/memory/buffer_allocator.h"
#include "engine/memory/large_ranges.h"
#include "engine/memory/memory_pool.h"
#include "engine/memory/slab_pool.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/accept/acceptor.h"
#include "engine/network/accept/processor_set.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/network_metrics.h"
#include "engine/network/processor/processor.h"
#include "engine/network/processor/processor_seat.h"
#include "engine/network/request/request_channel.h"
#include "engine/network/request/request_handler_pool.h"
#include "engine/network/request/request_metrics.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_ring.h"
#include "tests/simulation/sim_scheduler.h"

namespace gyre::sim {

struct SimServerOptions {
  uint16_t port = 9092;
  int processors = 2;
  int handlers = 2;
  uint32_t queued_max_requests = 4;
  std::vector<RequestLaneOptions> lanes;
  int64_t queued_max_request_bytes = MemoryPool::kUnbounded;
  ConnectionQuotaOptions quotas{.max_connections = 100};
  ProcessorOptions processor;
  SimRing::Options ring;

  // Bounds that a few small requests reach, drawn from the seed.
  static SimServerOptions Tight(uint64_t seed);
};

class SimServer {
 public:
  SimServer(uint64_t seed, const SimServerOptions& options, const Clock& clock,
            SimNetwork& network);
  ~SimServer();
  SimServer(const SimServer&) = delete;
  SimServer& operator=(const SimServer&) = delete;

  ContinuationLane& continuations() { return channel_; }
  ConnectionQuotas& quotas() { return quotas_; }
  BufferAllocator& response_buffers() { return response_buffers_; }
  // Starts the bodies, which call `handler`, and adds them to `scheduler`.
  void Start(RequestHandler& handler, SimScheduler& scheduler);
  // What a controlling thread does that changes the number of processors all the time:
  // starts one, lets one go, or ends one that has retired.
  bool ResizeStep();
  int resizes() const { return resizes_; }
  // As SocketServer's: connections go on with these from a turn of their processor on.
  void SetConnectionOptions(const ConnectionOptions& options);
  // Accepts no more, and closes every connection at once or, draining, when its
  // requests are answered. done() tells when all are gone.
  void BeginStop(bool drain);
  bool stopped() const;
  // The bodies end where they are, as when the machine goes down.
  void Halt();
  int64_t Metric(absl::string_view name) const { return registry_.Value(name).value_or(-1); }
  int64_t connections() const {
    return Metric("network_connections_accepted_total") -
           Metric("network_connections_closed_total");
  }
  // Connections that were closed because memory was short.
  int64_t closed_for_memory() const {
    return Metric("network_partial_requests_broken_total") +
           Metric("network_responses_shed_total") + Metric("network_responses_stalled_total");
  }
  // What is still held when nothing should be: bytes, buffers, connections.
  // Empty when all is given back.
  std::string Leaks() const;

 private:
  std::unique_ptr<SimRing> MakeRing();
  void AddProcessor(std::unique_ptr<ProcessorSeat> seat);
  std::unique_ptr<ProcessorSeat> TakeSeat(const ProcessorSeat& seat);

  const SimServerOptions options_;
  ConnectionOptions connection_options_;  // as they are now
  const Clock& clock_;
  SimNetwork& network_;
  Random random_;
  MemoryPool memory_;
  LargeRanges large_ranges_;
  std::unique_ptr<SlabPool> slab_;
  SlabAllocator response_buffers_;
  ConnectionQuotas quotas_;
  MetricRegistry registry_;
  NetworkMetrics metrics_;
  RequestMetrics request_metrics_;
  RequestChannel channel_;
  const Int32LengthPrefixed frame_decoder_;
  Listener listener_;
  int listen_fd_;
  std::vector<std::unique_ptr<ProcessorSeat>> seats_;
  std::vector<std::unique_ptr<ProcessorSeat>> free_seats_;
  std::vector<std::unique_ptr<Processor>> processors_;
  std::vector<std::unique_ptr<Processor>> retiring_;
  ProcessorSet processor_set_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::unique_ptr<HandlerWorker>> workers_;
  RequestHandler* handler_ = nullptr;
  SimScheduler* scheduler_ = nullptr;
  int resizes_ = 0;
  bool stopping_ = false;
  bool running_ = false;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_SERVER_H_
