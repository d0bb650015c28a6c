// A hierarchical timing wheel (Varghese and Lauck, "Hashed and hierarchical
// timing wheels"), with Kafka's numbers: ticks of 1 ms, 20 slots a level, so
// the levels span 20 ms, 400 ms, 8 s, 160 s, …; a level is made when the first
// entry needs it. Nothing ticks: advancing jumps from one filled slot to the
// next.
//
// Add and Cancel are O(1) (Add walks the levels, of which ten span a year).
// An entry is never collected before its deadline, and less than one tick after
// it when the wheel is advanced in time. Entries of one tick come in no order.
//
// A slot is a chain of small arrays of (tick, entry), not a list through the
// entries: an entry moves three or four times on its way from a coarse level to
// a fine one, and a list would wait for its memory each time, one entry after
// the other. Arrays say what is to be touched long before it is.
//
// Threads: one at a time (timer/timer.h shares one behind a lock).
// Owns: the arrays, not the entries. It keeps the arrays it once needed.
// Invariant: an entry of level n >= 1 expires in a later slot of that level
// than the current one.
#ifndef GYRE_ENGINE_TIMER_TIMING_WHEEL_H_
#define GYRE_ENGINE_TIMER_TIMING_WHEEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/intrusive_list.h"

namespace gyre {

class TimingWheel;

struct TimerChunk;

// One timeout; base or member of what it times. Out of the wheel before it dies.
// The list node is for what has expired.
struct TimerEntry : IntrusiveListNode<TimingWheel> {
  // In the clock's nanoseconds. Not changed while pending.
  int64_t deadline_ns = 0;
  // Used by timer/timer.h; whoever drives a wheel by hand may ignore it.
  void (*on_expire)(TimerEntry* entry) = nullptr;

 private:
  friend class TimingWheel;
  TimerChunk* chunk_ = nullptr;  // null: not in the wheel
  uint32_t index_ = 0;           // in the chunk
};

using TimerList = IntrusiveList<TimerEntry, TimingWheel>;

class TimingWheel {
 public:
  static constexpr int64_t kNever = INT64_MAX;
  static constexpr int kSlotCount = 20;

  explicit TimingWheel(int64_t now_ns, int64_t tick_ns = 1'000'000);
  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;
  // Takes out what is left.
  ~TimingWheel();

  // Makes the levels for deadlines up to `ahead_ns` from now, for who must not allocate
  // later.
  void MakeLevels(int64_t ahead_ns);

  // The entry is in no list. One whose deadline has passed is collected by the
  // next AdvanceTo.
  void Add(TimerEntry* entry);
  // False when it is not in the wheel (never added, cancelled, collected).
  bool Cancel(TimerEntry* entry);

  // Appends every entry with deadline <= `now_ns` to `expired`, in the order of
  // their ticks. A time before the last one is ignored.
  void AdvanceTo(int64_t now_ns, TimerList* expired);

  // When to advance next: no entry expires before it. It may lie before the
  // first deadline (entries then move to a finer level). kNever when empty.
  int64_t NextExpiryNs();

  size_t size() const { return size_; }
  int level_count() const { return static_cast<int>(levels_.size()); }

 private:
  friend struct TimerChunk;

  // Entries in no order: a chain of chunks of which only the last has room.
  struct Bag {
    TimerChunk* last = nullptr;
    bool empty() const { return last == nullptr; }
  };
  struct Level {
    int64_t ticks_per_slot = 1;
    // Ticks after which no deadline fits here.
    uint64_t span_ticks = kSlotCount;
    // Bit i: slots[i] may be non-empty. Cancel leaves it set.
    uint32_t filled = 0;
    Bag slots[kSlotCount];
  };
  // A slot of a level, by the tick at which it begins.
  struct Slot {
    int64_t tick = kNever;
    Level* level = nullptr;
    int index = 0;
  };

  // The first tick that is not before the deadline.
  int64_t ExpiryTick(int64_t deadline_ns) const;
  void Insert(TimerEntry* entry, int64_t expiry_tick);
  Level& LevelAt(size_t index);
  // The first filled slot at or after the current tick.
  Slot FirstFilled();
  // Takes all entries out of a bag: those due by the current tick to `expired`,
  // the others to finer slots.
  void Empty(Bag* bag, TimerList* expired);

  void Push(Bag* bag, TimerEntry* entry, int64_t expiry_tick);
  TimerChunk* AcquireChunk();
  void ReleaseChunk(TimerChunk* chunk);
  static void Forget(const Bag& bag);

  static constexpr size_t kChunksAtOnce = 16;

  const int64_t tick_ns_;
  int64_t current_tick_;
  size_t size_ = 0;
  Bag due_;
  std::vector<std::unique_ptr<Level>> levels_;
  std::vector<std::unique_ptr<TimerChunk[]>> chunks_;
  TimerChunk* free_chunks_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_TIMER_TIMING_WHEEL_H_
