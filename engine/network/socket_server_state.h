// What a server consists of, and how it is put together and taken apart; SocketServer
// is its face. Only socket_server.cc includes this.
//
// Threads: as SocketServer says; the quotas and the allocator tell of excess and refusals
// from any.
// Owns: all of it, in the order in which the parts must outlive each other.
#ifndef GYRE_ENGINE_NETWORK_SOCKET_SERVER_STATE_H_
#define GYRE_ENGINE_NETWORK_SOCKET_SERVER_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/memory/buffer_allocator.h"
#include "engine/memory/large_ranges.h"
#include "engine/memory/slab_pool.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/endpoint.h"
#include "engine/network/frame_decoder.h"
#include "engine/network/listener_handlers.h"
#include "engine/network/listener_runtime.h"
#include "engine/network/listener_threads.h"
#include "engine/network/memory_collector.h"
#include "engine/network/network_collector.h"
#include "engine/network/network_metrics.h"
#include "engine/network/network_plane.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/request/request_metrics.h"
#include "engine/network/server_options.h"
#include "engine/network/socket_server.h"

namespace gyre {

struct SocketServer::State final : private ConnectionQuotas::ExcessListener,
                                   private SlabAllocator::RefusalListener {
  State(SocketServerOptions server_options, RequestHandler& request_handler);

  absl::Status Open();
  absl::Status SetAddressLimits();
  absl::Status OpenListener(const ListenerOptions& listener_options);
  // Whether a request that large can come in everywhere.
  absl::Status CheckRequestFits(int64_t request_max_bytes);
  // What `connection` asks for, within the limits of the start: what zero copy may pin
  // comes out of the answers' part.
  ConnectionOptions WithinLimits(ConnectionOptions connection) const;
  absl::Status StartProcessors();
  absl::Status StartThreads();
  void RegisterGauges();
  // In the log: whether there are enough.
  void TellDescriptors() const;
  void StopAccepting();
  // Whether the caller is on one of the server's own threads, as handlers are.
  bool RunsHere() const;
  int64_t OpenConnections() const;
  bool AwaitNoConnections(int64_t deadline_ms) const;
  // As ProcessorPool has it, of all.
  int64_t HeldByHandlers() const;
  void Stop();
  // ConnectionQuotas::ExcessListener.
  void OnExcessConnections() override;
  // SlabAllocator::RefusalListener.
  void OnAnswerRefused() override;

  const absl::Status options_checked;
  const SocketServerOptions options;
  const Clock& clock;
  Int32LengthPrefixed frame_decoder;
  ConnectionOptions connection_options;  // as they are now
  std::atomic<int64_t> max_frame_bytes;  // likewise

  // In the order in which they must outlive each other.
  LargeRanges large_ranges;
  std::unique_ptr<SlabPool> slab;
  SlabAllocator response_buffers;
  const uint64_t descriptor_limit;
  const int32_t connections_within;  // that limit
  ConnectionQuotas quotas;
  NetworkMetrics metrics;
  RequestMetrics request_metrics;
  ListenerHandlers handlers;
  NetworkPlane data_plane;
  std::vector<std::unique_ptr<NetworkPlane>> privileged_planes;  // [i]: of listener i, or null
  std::vector<ListenSocket> adopted;
  RingFactory make_ring;
  std::atomic<int> next_processor_index{0};
  std::vector<std::unique_ptr<ListenerRuntime>> listeners;
  ListenerThreads listener_threads;
  std::vector<Endpoint> bound_endpoints;
  std::unique_ptr<NetworkCollector> collector;
  std::unique_ptr<MemoryCollector> memory_collector;
  bool opened = false;
  bool started = false;  // its processors
  bool serving = false;  // all of it
  std::atomic<bool> draining{false};
  std::atomic<bool> stopped{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_SOCKET_SERVER_STATE_H_
