// The engine's front door: listeners, processors and handler threads built from
// one options struct, started, drained and stopped together. An engine user
// implements RequestHandler, fills SocketServerOptions and calls Start.
//
// It ends in this order (tools/examples/kv_server.cc): BeginDrain; the purgatory's
// Shutdown, if delayed operations wait longer than the drain shall; Drain; Stop; the timer's
// thread, and whoever else answers or posts, are joined; continuations().DropAll() for what
// was posted since; the purgatory is destroyed, and what holds RequestPtrs, buffers or
// ThrottleTokens gives them up; then the server is destroyed, and after it the timer and the
// handler.
//
// Threads: construction, Start, Drain, Stop and destruction on one thread, and never on a
// handler's (a signal is turned into a call on it first); Resize… and the getters from any
// after Start, Resize… not from a handler.
// Owns: every thread, ring, connection and listening socket of the server.
// Borrows: the handler, the clock and the metric registry, which outlive it.
// Invariant: after Stop returns no handler is called any more; a Reply that comes
// later is dropped, and every Reply has returned before the server is destroyed (so
// whoever answers later, such as a timer's thread, is joined in between). RequestPtrs
// and tokens that outlive it end a debug build; else that is logged, and what they refer to
// is never freed (but for the clock, which is to outlive them).
#ifndef GYRE_ENGINE_NETWORK_SOCKET_SERVER_H_
#define GYRE_ENGINE_NETWORK_SOCKET_SERVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/continuation.h"
#include "engine/memory/buffer_allocator.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/network/connection/connection_info.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/endpoint.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/server_options.h"

namespace gyre {

class SocketServer {
 public:
  SocketServer(SocketServerOptions options, RequestHandler& handler);
  ~SocketServer();  // Stop()s
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  // Listening sockets that another process had: a listener with the same name, host and
  // port (or port 0) takes them instead of binding. Before Start; what none takes is
  // closed by it.
  void AdoptListenSockets(std::vector<ListenSocket> sockets);

  // All of Start that can be refused: checks the options, takes memory, makes the rings,
  // binds. Connects are refused until Start (adopted sockets hold their clients).
  absl::Status Open();
  // Open when nobody did, then every thread; when it returns OK, clients are served. An
  // error, of Open too, is one line that says what, why and what to do, and leaves
  // nothing behind. Once: FAILED_PRECONDITION when it was started (it goes on then), or
  // stopped, or told to drain before.
  absl::Status Start();

  // As bound (port 0 resolved), in the order of the options. After Start.
  const std::vector<Endpoint>& bound_endpoints() const;

  // Where timers, the flusher and appenders post work for handler threads: the data
  // plane's, so what a privileged listener's handler delays may wait for a data plane that
  // is busy. Valid from construction; runs nothing before Start.
  ContinuationLane& continuations();
  // For the bytes of responses: registered slab memory while it lasts, and TryAllocate for
  // large ones, within what memory_limit_bytes has for answers. Valid from construction
  // until the server is destroyed. Every buffer of it is back by then, and
  // every Request::frame_buffer() and ThrottleToken: a handler that keeps some in its
  // members gives them up between Stop and there, since it lives longer itself.
  BufferAllocator& response_buffers();

  // Duplicates of every listening socket, to hand to a process that takes them over:
  // they stay open, with the clients in their backlogs, when this server closes its
  // own. Any thread, until accepting stops.
  absl::StatusOr<std::vector<ListenSocket>> DuplicateListenSockets();

  // Stops accepting and tells every processor to close each connection once what has
  // come of it is answered, and a frame of which a part has. Returns at once.
  void BeginDrain();
  // BeginDrain, then waits until every connection is gone or `deadline_ms` of real time
  // has passed. True when all were; the rest is closed by Stop. What may never end lasts
  // until the deadline: a delayed operation without a timeout, and a frame of which a part
  // has come while frame_timeout_ms is -1. Called by a handler, which it would wait for, it
  // ends a debug build, and else does not wait and is false.
  bool Drain(int64_t deadline_ms);
  // Ends at once: closes every connection, joins every thread. Idempotent. Called by a
  // handler it ends a debug build, and else does nothing but log.
  void Stop();

  // Between half and double of the present number at a time, at least one: else
  // OUT_OF_RANGE, which names the range, and nothing has changed.
  //
  // Network threads, of each listener without a number of its own: privileged ones and
  // those with an override keep theirs, as in Kafka. Connections of threads that go move
  // to the others and notice nothing; returns when those are gone, or after 30 s with a
  // request still under way (they end with it). One resize of network threads at a time.
  absl::Status ResizeNetworkThreads(int32_t count);
  // Handler threads: those that go finish what they started; returns when they did, or
  // after 30 s (they end with it).
  absl::Status ResizeHandlerThreads(int32_t count);
  // Over all listeners; of one (0 when there is none of that name).
  int32_t network_threads() const;
  int32_t network_threads(absl::string_view listener_name) const;
  int32_t handler_threads() const;

  // UNAVAILABLE names a processor that has been in one turn, or a handler that has been in
  // one request, for kStuckTurnMs or longer (network_health.h). Any thread, after Start.
  static constexpr int64_t kStuckTurnMs = 10'000;
  absl::Status Health() const;

  int64_t connection_count() const;
  // Its setters change the limits of connections at run time.
  ConnectionQuotas& connection_quotas();

  // --- while it serves: from any one thread at a time ------------------------------
  const ConnectionOptions& connection_options() const;
  // Connections, those that are there too, go on with these from their processor's next
  // turn. An error says what is good; nothing changed then. The dispatch stays as it was at
  // the start.
  absl::Status SetConnectionOptions(const ConnectionOptions& options);
  // The lanes that are named get these weights; NOT_FOUND says which there is not.
  absl::Status SetLaneWeights(const std::vector<RequestLaneOptions>& lanes);
  // What single listeners have of their own (network/listener_overrides.h), in place of
  // what they had; a listener whose number of threads is left out gets the server's.
  // An error changes nothing, except that threads which could not be made are missing.
  absl::Status SetListenerOverrides(absl::string_view text);
  // At most `max_count` of the connections; fewer when a processor did not answer within
  // `timeout_ms`.
  std::vector<ConnectionInfo> ListConnections(size_t max_count, int64_t timeout_ms);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_SOCKET_SERVER_H_
