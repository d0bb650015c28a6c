// A listening socket on its way to the processor that shall accept from it, with what
// was accepted from it already and is held: counted as held until somebody takes it.
//
// Threads: handoff.
// Owns: every socket it names.
#ifndef GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_HANDOVER_H_
#define GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_HANDOVER_H_

#include <unistd.h>

#include <cstdint>

#include "engine/base/fifo.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/endpoint.h"
#include "engine/network/listener.h"

namespace gyre {

// Accepted, and waiting unserved for a maximum or a rate.
struct HeldSocket {
  int fd = -1;
  SocketAddress peer;
};

struct ListenSocketHandover : MpscNode {
  ListenSocketHandover() = default;
  ListenSocketHandover(const ListenSocketHandover&) = delete;
  ListenSocketHandover& operator=(const ListenSocketHandover&) = delete;
  ~ListenSocketHandover() {
    if (!held.empty()) quotas->LetGo(listener->index, static_cast<int64_t>(held.size()));
    while (!held.empty()) close(held.PopFront().fd);
  }

  UniqueFd listen_fd;
  const Listener* listener = nullptr;
  ConnectionQuotas* quotas = nullptr;
  Fifo<HeldSocket> held;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPT_LISTEN_SOCKET_HANDOVER_H_
