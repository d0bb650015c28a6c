#include "engine/timer/timing_wheel.h"

#include <bit>
#include <limits>

namespace gyre {
namespace {

// Rounds towards minus infinity: monotonic clocks are not negative, manual
// ones may be.
int64_t FloorDivide(int64_t value, int64_t by) {
  const int64_t quotient = value / by;
  return value % by < 0 ? quotient - 1 : quotient;
}

}  // namespace

TimingWheel::TimingWheel(int64_t now_ns, int64_t tick_ns)
    : tick_ns_(tick_ns), current_tick_(FloorDivide(now_ns, tick_ns)) {}

TimingWheel::~TimingWheel() {
  const auto clear = [](TimerList& list) {
    while (TimerEntry* entry = list.PopFront()) entry->in_wheel_ = false;
  };
  clear(due_);
  for (const auto& level : levels_) {
    for (TimerList& slot : level->slots) clear(slot);
  }
}

void TimingWheel::Add(TimerEntry* entry) {
  entry->in_wheel_ = true;
  ++size_;
  Insert(entry);
}

bool TimingWheel::Cancel(TimerEntry* entry) {
  if (!entry->in_wheel_) return false;
  entry->Unlink();
  entry->in_wheel_ = false;
  --size_;
  return true;
}

int64_t TimingWheel::ExpiryTick(int64_t deadline_ns) const {
  const int64_t tick = FloorDivide(deadline_ns, tick_ns_);
  return tick * tick_ns_ == deadline_ns ? tick : tick + 1;
}

void TimingWheel::Insert(TimerEntry* entry) {
  const int64_t expiry_tick = ExpiryTick(entry->deadline_ns);
  if (expiry_tick <= current_tick_) {
    due_.PushBack(entry);
    return;
  }
  for (size_t i = 0;; ++i) {
    Level& level = LevelAt(i);
    const int64_t slot = FloorDivide(expiry_tick, level.ticks_per_slot);
    const int64_t current_slot = FloorDivide(current_tick_, level.ticks_per_slot);
    // The last level spans all of time (see LevelAt); before it, what lies
    // beyond this level's turn goes to a coarser one.
    if (slot - current_slot < kSlotCount) {
      const auto index = static_cast<int>(((slot % kSlotCount) + kSlotCount) % kSlotCount);
      level.filled |= uint32_t{1} << index;
      level.slots[index].PushBack(entry);
      return;
    }
  }
}

TimingWheel::Level& TimingWheel::LevelAt(size_t index) {
  // 14 levels span 20^14 ticks, more than an int64 of nanoseconds holds
  // milliseconds; with finer ticks 15 do.
  while (levels_.size() <= index) {
    auto level = std::make_unique<Level>();
    if (!levels_.empty()) level->ticks_per_slot = levels_.back()->ticks_per_slot * kSlotCount;
    levels_.push_back(std::move(level));
  }
  return *levels_[index];
}

TimingWheel::Slot TimingWheel::FirstFilled() {
  Slot first;
  for (const auto& level : levels_) {
    const int64_t current_slot = FloorDivide(current_tick_, level->ticks_per_slot);
    const auto current_index =
        static_cast<int>(((current_slot % kSlotCount) + kSlotCount) % kSlotCount);
    while (level->filled != 0) {
      // Rotates the current slot to bit 0, so that the lowest bit is the next.
      const uint64_t doubled = uint64_t{level->filled} | (uint64_t{level->filled} << kSlotCount);
      const int distance = std::countr_zero(doubled >> current_index);
      const int index = (current_index + distance) % kSlotCount;
      if (level->slots[index].empty()) {
        level->filled &= ~(uint32_t{1} << index);
        continue;
      }
      const int64_t tick = (current_slot + distance) * level->ticks_per_slot;
      if (tick < first.tick) first = {tick, level.get(), index};
      break;
    }
  }
  return first;
}

void TimingWheel::AdvanceTo(int64_t now_ns, TimerList* expired) {
  const auto collect = [&](TimerEntry* entry) {
    entry->in_wheel_ = false;
    --size_;
    expired->PushBack(entry);
  };
  while (TimerEntry* entry = due_.PopFront()) collect(entry);
  const int64_t target_tick = FloorDivide(now_ns, tick_ns_);
  if (target_tick <= current_tick_) return;
  for (;;) {
    const Slot slot = FirstFilled();
    if (slot.tick > target_tick) break;
    current_tick_ = slot.tick;
    slot.level->filled &= ~(uint32_t{1} << slot.index);
    TimerList entries;
    entries.TakeAll(&slot.level->slots[slot.index]);
    while (TimerEntry* entry = entries.PopFront()) {
      if (ExpiryTick(entry->deadline_ns) <= current_tick_) {
        collect(entry);
      } else {
        Insert(entry);
      }
    }
  }
  current_tick_ = target_tick;
}

int64_t TimingWheel::NextExpiryNs() {
  if (!due_.empty()) return current_tick_ * tick_ns_;
  const Slot slot = FirstFilled();
  if (slot.tick == kNever) return kNever;
  if (slot.tick > std::numeric_limits<int64_t>::max() / tick_ns_) return kNever;
  return slot.tick * tick_ns_;
}

}  // namespace gyre
