// An answer that waits for a condition or a deadline, whichever comes first: a
// Produce for its bytes to be durable, a Fetch for enough bytes, a Join for the
// group. It holds no thread and never the request's buffer.
//
// Subclasses say what to wait for (TryComplete), what then (OnComplete) and
// what more at the deadline (OnExpiration). These run on handler threads, one
// at a time for one operation, under none of the purgatory's locks.
//
// The state is one word. Whoever raises kRunning owns the next turn: it posts
// the operation to the continuation lane. A request that finds kRunning up only
// leaves its flag, and the turn that is on runs again for it: no event is lost,
// none runs beside another.
//
// Threads: handoff between handlers by kRunning; Request… and completed() any.
// Owns: itself, by references: one each of the caller, the watch lists, the
// timer and the lane.
// Invariant: exactly one of OnComplete and OnDrop runs, once.
#ifndef GYRE_ENGINE_PURGATORY_DELAYED_OPERATION_H_
#define GYRE_ENGINE_PURGATORY_DELAYED_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "engine/base/intrusive_list.h"
#include "engine/base/ref_ptr.h"
#include "engine/concurrent/continuation.h"
#include "engine/timer/timing_wheel.h"

namespace gyre {

class DelayedOperation;
class DelayedOperationPurgatory;

// What an operation waits on: a partition, a group. `kind` keeps apart the id
// spaces that share a purgatory; an id may be a hash, since a collision only
// costs a re-check in vain. The largest kind is the purgatory's own.
struct WatchKey {
  uint32_t kind = 0;
  uint64_t id = 0;

  friend bool operator==(const WatchKey&, const WatchKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const WatchKey& key) {
    return H::combine(std::move(state), key.kind, key.id);
  }
};

class DelayedOperation : public RefCounted, private Continuation, private TimerEntry {
 public:
  static constexpr int64_t kNoTimeout = -1;

  // The timeout counts from TryCompleteElseWatch. Any negative one is kNoTimeout: no
  // deadline, and an operation of a request then holds up a drain of its server for as long
  // as its condition does not come. One beyond the end of the clock ends with it.
  explicit DelayedOperation(int64_t timeout_ms);

  // True once OnComplete or OnDrop is decided.
  bool completed() const { return (state_.load(std::memory_order_acquire) & kCompleted) != 0; }

  // For an event source that holds the operation itself instead of a key. They
  // may come before TryCompleteElseWatch, which then acts on them. Any thread.
  // Has TryComplete run again.
  void RequestCheck() { RequestTurn(kCheck); }
  // Has OnComplete run without asking TryComplete.
  void RequestComplete() { RequestTurn(kForced); }

 protected:
  ~DelayedOperation() override;

  // Looks whether the condition holds and, if so, returns ForceComplete().
  virtual bool TryComplete() = 0;
  // The answer. Runs once, after the operation left its lists and the timer.
  virtual void OnComplete() = 0;
  // After OnComplete, when the deadline was the reason.
  virtual void OnExpiration() {}
  // Instead of OnComplete, when the purgatory shuts down; on that thread.
  virtual void OnDrop() {}

  // Called from TryComplete. True for the caller that completed it.
  bool ForceComplete();

 private:
  friend class DelayedOperationPurgatory;

  static constexpr uint32_t kRunning = 1;     // a thread has the turn, or the lane has it
  static constexpr uint32_t kCheck = 2;       // wanted: TryComplete
  static constexpr uint32_t kExpired = 4;     // wanted: completion by deadline
  static constexpr uint32_t kForced = 8;      // wanted: completion
  static constexpr uint32_t kCompleted = 16;  // final
  static constexpr uint32_t kWanted = kCheck | kExpired | kForced;

  // Membership in the watch list of one key.
  struct WatchLink : IntrusiveListNode<DelayedOperationPurgatory> {
    DelayedOperation* operation = nullptr;
    WatchKey key;
  };
  static constexpr size_t kInlineLinkCount = 2;

  // Sets the flag. True: the caller got the turn and must post the operation.
  bool Want(uint32_t flag);
  void RequestTurn(uint32_t flag);
  // Hands the operation, with one reference, to the lane.
  void PostAdopted();
  // Runs turns while any are wanted, then gives kRunning back. True if it found
  // the operation completed.
  bool RunTurns();
  void RunTurn();

  absl::Span<WatchLink> MakeLinks(absl::Span<const WatchKey> keys);
  absl::Span<WatchLink> links();

  const int64_t timeout_ms_;
  // Up from the start: the maker has the turn until TryCompleteElseWatch ends.
  std::atomic<uint32_t> state_{kRunning};
  // Whether the watch lists' reference is counted.
  std::atomic<bool> watch_reference_{false};
  DelayedOperationPurgatory* purgatory_ = nullptr;  // set by who has the turn
  DelayedOperation* next_to_post_ = nullptr;        // of who has the turn
  size_t link_count_ = 0;
  WatchLink inline_links_[kInlineLinkCount];
  std::unique_ptr<WatchLink[]> more_links_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PURGATORY_DELAYED_OPERATION_H_
