// A connection on its way to the processor that will serve it: from whoever accepted
// it, or from a processor that gives it up.
//
// Threads: NewConnection handoff.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_NEW_CONNECTION_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_NEW_CONNECTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/fifo.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/connection/connection_migration.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/endpoint.h"
#include "engine/network/listener.h"

namespace gyre {

struct ListenSocketHandover;

// Owns its place in the quotas; the descriptor is closed by whoever holds it last.
struct NewConnection {
  int fd = -1;
  SocketAddress peer;
  const Listener* listener = nullptr;
  ConnectionQuotas::Token quota;
  // What it brings along from the processor that had it; null: it is new, and has
  // peer and listener instead.
  std::unique_ptr<ConnectionMigration> migration;
};

// Those that wait for one processor, as values: who accepts allocates nothing for the
// hand-over, and nobody has to give anything back.
//
// Threads: Push any; TryPop and Empty the processor. A lock, over one move.
class NewConnectionQueue {
 public:
  NewConnectionQueue() {
    MutexLock lock(mutex_);
    waiting_.Reserve(kRoom);
  }
  void Push(NewConnection connection) {
    MutexLock lock(mutex_);
    waiting_.PushBack(std::move(connection));
    CountWaiting();
  }
  bool TryPop(NewConnection* connection) {
    if (Empty()) return false;
    MutexLock lock(mutex_);
    *connection = waiting_.PopFront();
    CountWaiting();
    return true;
  }
  bool Empty() const { return count_.load(std::memory_order_seq_cst) == 0; }

 private:
  void CountWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    count_.store(waiting_.size(), std::memory_order_seq_cst);
  }

  // A burst beyond it makes room for itself, once.
  static constexpr size_t kRoom = 64;

  Mutex mutex_;
  Fifo<NewConnection> waiting_ ABSL_GUARDED_BY(mutex_);
  // Its size. seq_cst: pairs with the seat's parked flag, as the other mailboxes do.
  std::atomic<size_t> count_{0};
};

// Where accepted sockets go: a processor.
class ConnectionTarget {
 public:
  // Any thread; never fails, never waits.
  virtual void EnqueueConnection(NewConnection connection) = 0;
  // Connections that are open, and those on their way here. Any thread.
  virtual int64_t open_connections() const = 0;
  // The server has more connections than it may have: closes one, and goes on
  // while its claim to close another is granted. Any thread.
  virtual void EnqueueShed() = 0;
  // An answer found no room in memory: closes readers that hardly take theirs. Any thread.
  virtual void EnqueueStallCheck() = 0;
  // Accepts from it, too. Any thread.
  virtual void EnqueueListenSocket(std::unique_ptr<ListenSocketHandover> socket) = 0;
  // How many it accepts from, those on their way here or from here included.
  virtual int32_t listening_sockets() const = 0;

 protected:
  ~ConnectionTarget() = default;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_NEW_CONNECTION_H_
