#include "engine/network/accept/processor_set.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace gyre {

void ProcessorSet::Add(ConnectionTarget* target) {
  MutexLock lock(mutex_);
  targets_.push_back(target);
}

void ProcessorSet::Remove(ConnectionTarget* target) {
  MutexLock lock(mutex_);
  DCHECK_GT(targets_.size(), 1u);
  targets_.erase(std::remove(targets_.begin(), targets_.end(), target), targets_.end());
  removed_.push_back(target);
}

void ProcessorSet::Forget(ConnectionTarget* target) {
  MutexLock lock(mutex_);
  removed_.erase(std::remove(removed_.begin(), removed_.end(), target), removed_.end());
}

void ProcessorSet::Place(NewConnection connection) {
  // The hand-over is under the lock, which is what Remove's promise rests on; it
  // is a push and at most one wake.
  MutexLock lock(mutex_);
  DCHECK(!targets_.empty());
  // The search begins behind the last one chosen, so that equals take turns.
  size_t least = next_ % targets_.size();
  for (size_t i = 1; i < targets_.size(); ++i) {
    const size_t candidate = (next_ + i) % targets_.size();
    if (targets_[candidate]->open_connections() < targets_[least]->open_connections()) {
      least = candidate;
    }
  }
  next_ = least + 1;
  targets_[least]->EnqueueConnection(std::move(connection));
}

void ProcessorSet::PlaceListenSocket(std::unique_ptr<ListenSocketHandover> socket) {
  MutexLock lock(mutex_);
  DCHECK(!targets_.empty());
  ConnectionTarget* const least = *std::min_element(
      targets_.begin(), targets_.end(),
      [](const auto* a, const auto* b) { return a->listening_sockets() < b->listening_sockets(); });
  least->EnqueueListenSocket(std::move(socket));
}

int32_t ProcessorSet::ListenSurplus(const ConnectionTarget& target) const {
  MutexLock lock(mutex_);
  if (targets_.empty()) return 0;
  int32_t count = 0;
  for (const ConnectionTarget* each : targets_) count += each->listening_sockets();
  const auto size = static_cast<int32_t>(targets_.size());
  return std::max(0, target.listening_sockets() - (count + size - 1) / size);
}

void ProcessorSet::Shed() {
  MutexLock lock(mutex_);
  for (ConnectionTarget* target : targets_) target->EnqueueShed();
}

void ProcessorSet::CheckForStalls() {
  MutexLock lock(mutex_);
  for (ConnectionTarget* target : targets_) target->EnqueueStallCheck();
}

int64_t ProcessorSet::open_connections() const {
  // Under the lock no connection moves: one that leaves a target was placed before.
  MutexLock lock(mutex_);
  int64_t count = 0;
  for (const ConnectionTarget* target : targets_) count += target->open_connections();
  for (const ConnectionTarget* target : removed_) count += target->open_connections();
  return count;
}

int64_t ProcessorSet::Surplus(const ConnectionTarget& target) const {
  MutexLock lock(mutex_);
  if (targets_.empty()) return 0;
  int64_t count = 0;
  for (const ConnectionTarget* each : targets_) count += each->open_connections();
  const auto size = static_cast<int64_t>(targets_.size());
  return std::max<int64_t>(0, target.open_connections() - (count + size - 1) / size);
}

size_t ProcessorSet::size() const {
  MutexLock lock(mutex_);
  return targets_.size();
}

}  // namespace gyre
