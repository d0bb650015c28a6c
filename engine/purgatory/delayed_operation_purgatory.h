// Where delayed operations wait. Events name a key; every operation that
// watches it is asked to look again, on a handler thread. Kafka's purgatory in
// its rules, with two differences: a completed operation leaves all its lists
// at once (there is nothing to purge), and whoever reports an event only posts
// (an event may be reported under a partition or group lock, or from the
// thread that syncs files).
//
// Threads: CheckAndComplete and the gauges any; TryCompleteElseWatch a handler, or the
// processor that runs one inline.
// The threads of the timer and of the lane have stopped before it is destroyed, and it is
// destroyed before who has the lane (SocketServer says in which order all of it ends).
// Owns: the watch lists.  Borrows: clock, timer, lane.
// Lock order: a shard's lock is innermost; nothing is called under it.
#ifndef GYRE_ENGINE_PURGATORY_DELAYED_OPERATION_PURGATORY_H_
#define GYRE_ENGINE_PURGATORY_DELAYED_OPERATION_PURGATORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/intrusive_list.h"
#include "engine/base/limits.h"
#include "engine/base/ref_ptr.h"
#include "engine/concurrent/continuation.h"
#include "engine/concurrent/mutex.h"
#include "engine/purgatory/delayed_operation.h"
#include "engine/timer/timer.h"

namespace gyre {

class DelayedOperationPurgatory {
 public:
  DelayedOperationPurgatory(const Clock& clock, Timer& timer, ContinuationLane& lane);
  DelayedOperationPurgatory(const DelayedOperationPurgatory&) = delete;
  DelayedOperationPurgatory& operator=(const DelayedOperationPurgatory&) = delete;
  // Shuts down.
  ~DelayedOperationPurgatory();

  // Tries at once; if that fails, watches every key, tries once more (an event
  // may have come between the two), and starts the deadline. True when the operation was
  // completed by the time it returned. Once per operation: a second time is a bug, which
  // ends a debug build and else is logged and does nothing.
  bool TryCompleteElseWatch(RefPtr<DelayedOperation> operation, absl::Span<const WatchKey> keys);

  // Something happened to `key`: has every operation that watches it try again,
  // oldest first. Returns how many there are. What the caller wrote before is
  // visible to them.
  size_t CheckAndComplete(WatchKey key);
  // Has every operation that watches `key` complete, whatever its condition.
  size_t CompleteAll(WatchKey key);

  // Drops every operation (OnDrop) and, from now on, those that would wait.
  void Shutdown();

  // Operations that wait.
  int64_t pending_count() const { return pending_count_.load(std::memory_order_relaxed); }
  // Their places in watch lists; an operation has one per key.
  int64_t watched_count() const;
  // Keys that are watched.
  int64_t key_count() const;

 private:
  friend class DelayedOperation;
  using WatchLink = DelayedOperation::WatchLink;
  using WatchList = IntrusiveList<WatchLink, DelayedOperationPurgatory>;

  static constexpr size_t kShardCount = 64;
  static constexpr size_t kMaxSpareLists = 64;
  static constexpr uint32_t kNoKeyKind = UINT32_MAX;

  struct alignas(kCacheLineBytes) Shard {
    mutable Mutex mutex;
    bool closed ABSL_GUARDED_BY(mutex) = false;
    int64_t link_count ABSL_GUARDED_BY(mutex) = 0;
    // No empty lists.
    absl::flat_hash_map<WatchKey, std::unique_ptr<WatchList>> lists ABSL_GUARDED_BY(mutex);
    // Lists for keys to come, so that a key that comes and goes allocates none.
    std::vector<std::unique_ptr<WatchList>> spare ABSL_GUARDED_BY(mutex);

    // False when closed.
    bool Link(WatchLink* link) ABSL_LOCKS_EXCLUDED(mutex);
    void Unlink(WatchLink* link) ABSL_LOCKS_EXCLUDED(mutex);
  };

  Shard& ShardOf(const WatchKey& key);
  // False when the purgatory is closed.
  bool Watch(DelayedOperation* operation, absl::Span<const WatchKey> keys);
  void StartDeadline(DelayedOperation* operation);
  size_t RequestForKey(const WatchKey& key, uint32_t flag);
  // Takes a completed operation out of its lists and the timer. Idempotent.
  void Retire(DelayedOperation* operation);
  void Drop(DelayedOperation* operation);
  static void OnTimer(TimerEntry* entry);

  const Clock& clock_;
  Timer& timer_;
  ContinuationLane& lane_;
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<int64_t> pending_count_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PURGATORY_DELAYED_OPERATION_PURGATORY_H_
