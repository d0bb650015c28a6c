// What a listener's connections have in common, and a connection on its way to the
// processor that will serve it: from whoever accepted it, or from a processor that
// gives it up.
//
// Threads: Listener immutable once the server runs; NewConnection handoff.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_LISTENER_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_LISTENER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/concurrent/mpsc_queue.h"
#include "engine/network/connection/connection_migration.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/endpoint.h"
#include "engine/network/frame_decoder.h"

namespace gyre {

struct ListenSocketHandover;

// Outlives the connections that came through it.
struct Listener {
  int index = 0;
  Endpoint bound;
  std::string advertised_host;
  int32_t advertised_port = 0;
  const FrameDecoder* frame_decoder = nullptr;
};

// Owns its place in the quotas; the descriptor is closed by whoever holds it last.
struct NewConnection : MpscNode {
  int fd = -1;
  SocketAddress peer;
  const Listener* listener = nullptr;
  ConnectionQuotas::Token quota;
  // What it brings along from the processor that had it; null: it is new, and has
  // peer and listener instead.
  std::unique_ptr<ConnectionMigration> migration;
};

// Where accepted sockets go: a processor.
class ConnectionTarget {
 public:
  // Any thread; never fails, never waits.
  virtual void EnqueueConnection(std::unique_ptr<NewConnection> connection) = 0;
  // Connections that are open, and those on their way here. Any thread.
  virtual int64_t open_connections() const = 0;
  // The server has more connections than it may have: closes one, and goes on
  // while its claim to close another is granted. Any thread.
  virtual void EnqueueShed() = 0;
  // Accepts from it, too. Any thread.
  virtual void EnqueueListenSocket(std::unique_ptr<ListenSocketHandover> socket) = 0;
  // How many it accepts from, those on their way here or from here included.
  virtual int32_t listening_sockets() const = 0;

 protected:
  ~ConnectionTarget() = default;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_LISTENER_H_
