// The processors that one listener's connections are spread over. It may change
// while acceptors hand connections over: after Remove has returned, the removed
// one gets none any more.
//
// Threads: any; one mutex, taken once per accepted connection.
// Owns: nothing.  Borrows: its targets, from Add to Forget.
// Invariant: each connection given to Place reaches exactly one target.
#ifndef GYRE_ENGINE_NETWORK_ACCEPT_PROCESSOR_SET_H_
#define GYRE_ENGINE_NETWORK_ACCEPT_PROCESSOR_SET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/concurrent/mutex.h"
#include "engine/network/accept/listen_socket_handover.h"
#include "engine/network/connection/new_connection.h"

namespace gyre {

class ProcessorSet {
 public:
  void Add(ConnectionTarget* target);
  // The last one stays: there must be somewhere to put a connection.
  // Its connections still count, until Forget.
  void Remove(ConnectionTarget* target);
  void Forget(ConnectionTarget* target);
  // To the target with the fewest connections; in turn among equals. The set is
  // not empty.
  void Place(NewConnection connection);
  // To the target that accepts from the fewest.
  void PlaceListenSocket(std::unique_ptr<ListenSocketHandover> socket);
  // From how many more than its share `target` accepts.
  int32_t ListenSurplus(const ConnectionTarget& target) const;
  // Tells every target that there are too many connections.
  void Shed();
  // Tells every target that an answer found no room in memory.
  void CheckForStalls();
  size_t size() const;
  // The sum over all targets. One that moves by Place from one to another counts at
  // least once.
  int64_t open_connections() const;
  // How many more than its share `target` has.
  int64_t Surplus(const ConnectionTarget& target) const;

 private:
  mutable Mutex mutex_;
  std::vector<ConnectionTarget*> targets_ ABSL_GUARDED_BY(mutex_);
  std::vector<ConnectionTarget*> removed_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_ACCEPT_PROCESSOR_SET_H_
