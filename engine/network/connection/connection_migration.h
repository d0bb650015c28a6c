// What a connection takes along when it moves from one processor to another:
// everything that is not bound to a ring. It moves while nothing of it is in the
// kernel, with the handlers or waiting to be sent; what was received and not yet
// handed over goes with it, in order, a frame's beginning included. So the peer
// sees nothing of it.
//
// Threads: handoff.
// Owns: received bytes, in memory that belongs to no ring.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_MIGRATION_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_MIGRATION_H_

#include <cstdint>

#include "engine/memory/buffer.h"
#include "engine/network/connection/connection.h"
#include "engine/network/connection/network_receive.h"
#include "engine/network/request/session.h"

namespace gyre {

// What one connection moved so far, for /connections.
struct ConnectionTraffic {
  int64_t opened_ns = 0;
  int64_t requests = 0;
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;
};

struct ConnectionMigration {
  explicit ConnectionMigration(const Connection& from) : connection(from) {}

  Connection connection;
  NetworkReceive receive;
  // A frame that was taken and waits to start alone or in another lane.
  bool has_next_frame = false;
  Buffer next_frame;
  int64_t next_frame_charged_bytes = 0;
  Session session;
  int64_t last_progress_ns = 0;
  ConnectionTraffic traffic;
  bool frame_late = false;
  int64_t frame_started_ns = 0;
  int64_t throttle_end_ns = 0;  // of a throttling with an end of its own; 0: none
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_MIGRATION_H_
