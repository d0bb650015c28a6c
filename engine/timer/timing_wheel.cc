#include "engine/timer/timing_wheel.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

namespace gyre {

// Pending entries of one slot; about half a KiB.
struct TimerChunk {
  static constexpr uint32_t kCapacity = 30;
  struct Item {
    int64_t expiry_tick;
    TimerEntry* entry;
  };

  TimerChunk* previous = nullptr;
  TimingWheel::Bag* bag = nullptr;
  uint32_t count = 0;
  Item items[kCapacity];
};

namespace {

// How far ahead of its use an entry's memory is asked for.
constexpr uint32_t kPrefetchDistance = 8;

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
  Forget(due_);
  for (const auto& level : levels_) {
    for (const Bag& slot : level->slots) Forget(slot);
  }
}

void TimingWheel::Forget(const Bag& bag) {
  for (TimerChunk* chunk = bag.last; chunk != nullptr; chunk = chunk->previous) {
    for (uint32_t i = 0; i < chunk->count; ++i) chunk->items[i].entry->chunk_ = nullptr;
  }
}

TimerChunk* TimingWheel::AcquireChunk() {
  if (free_chunks_ == nullptr) {
    chunks_.push_back(std::make_unique<TimerChunk[]>(kChunksAtOnce));
    for (size_t i = 0; i < kChunksAtOnce; ++i) ReleaseChunk(&chunks_.back()[i]);
  }
  return std::exchange(free_chunks_, free_chunks_->previous);
}

void TimingWheel::ReleaseChunk(TimerChunk* chunk) {
  chunk->previous = free_chunks_;
  free_chunks_ = chunk;
}

void TimingWheel::Push(Bag* bag, TimerEntry* entry, int64_t expiry_tick) {
  TimerChunk* chunk = bag->last;
  if (chunk == nullptr || chunk->count == TimerChunk::kCapacity) {
    chunk = AcquireChunk();
    chunk->previous = bag->last;
    chunk->bag = bag;
    chunk->count = 0;
    bag->last = chunk;
  }
  entry->chunk_ = chunk;
  entry->index_ = chunk->count;
  chunk->items[chunk->count++] = {expiry_tick, entry};
}

void TimingWheel::MakeLevels(int64_t ahead_ns) {
  const auto ahead_ticks = static_cast<uint64_t>(ahead_ns / tick_ns_);
  for (size_t i = 0; LevelAt(i).span_ticks <= ahead_ticks; ++i) {
  }
}

void TimingWheel::Add(TimerEntry* entry) {
  ++size_;
  Insert(entry, ExpiryTick(entry->deadline_ns));
}

bool TimingWheel::Cancel(TimerEntry* entry) {
  TimerChunk* const chunk = std::exchange(entry->chunk_, nullptr);
  if (chunk == nullptr) return false;
  --size_;
  // The bag's last entry takes its place.
  Bag* const bag = chunk->bag;
  TimerChunk* const last = bag->last;
  const TimerChunk::Item moved = last->items[--last->count];
  if (moved.entry != entry) {
    chunk->items[entry->index_] = moved;
    moved.entry->chunk_ = chunk;
    moved.entry->index_ = entry->index_;
  }
  if (last->count == 0) {
    bag->last = last->previous;
    ReleaseChunk(last);
  }
  return true;
}

int64_t TimingWheel::ExpiryTick(int64_t deadline_ns) const {
  const int64_t tick = FloorDivide(deadline_ns, tick_ns_);
  return tick * tick_ns_ == deadline_ns ? tick : tick + 1;
}

void TimingWheel::Insert(TimerEntry* entry, int64_t expiry_tick) {
  if (expiry_tick <= current_tick_) return Push(&due_, entry, expiry_tick);
  // Unsigned: from a negative tick it may be more than an int64 holds.
  const uint64_t distance_ticks =
      static_cast<uint64_t>(expiry_tick) - static_cast<uint64_t>(current_tick_);
  for (size_t i = 0;; ++i) {
    Level& level = LevelAt(i);
    if (distance_ticks >= level.span_ticks) continue;
    const int64_t slot = FloorDivide(expiry_tick, level.ticks_per_slot);
    const int64_t current_slot = FloorDivide(current_tick_, level.ticks_per_slot);
    // The last level spans all of time (see LevelAt); before it, what lies
    // beyond this level's turn goes to a coarser one.
    if (slot - current_slot < kSlotCount) {
      const auto index = static_cast<int>(((slot % kSlotCount) + kSlotCount) % kSlotCount);
      level.filled |= uint32_t{1} << index;
      return Push(&level.slots[index], entry, expiry_tick);
    }
  }
}

TimingWheel::Level& TimingWheel::LevelAt(size_t index) {
  // 14 levels span 20^14 ticks, more than an int64 of nanoseconds holds
  // milliseconds; with finer ticks 15 do.
  while (levels_.size() <= index) {
    auto level = std::make_unique<Level>();
    if (!levels_.empty()) {
      level->ticks_per_slot = levels_.back()->ticks_per_slot * kSlotCount;
      const auto ticks = static_cast<uint64_t>(level->ticks_per_slot);
      level->span_ticks = ticks > UINT64_MAX / kSlotCount ? UINT64_MAX : ticks * kSlotCount;
    }
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

void TimingWheel::Empty(Bag* bag, TimerList* expired) {
  TimerChunk* chunk = std::exchange(bag->last, nullptr);
  while (chunk != nullptr) {
    TimerChunk* const next = chunk->previous;
    if (next != nullptr) __builtin_prefetch(next);
    for (uint32_t i = 0; i < chunk->count; ++i) {
      if (i + kPrefetchDistance < chunk->count) {
        __builtin_prefetch(chunk->items[i + kPrefetchDistance].entry, /*for writing=*/1);
      } else if (next != nullptr) {
        // The next chunk is full.
        __builtin_prefetch(next->items[i + kPrefetchDistance - chunk->count].entry, 1);
      }
      const TimerChunk::Item item = chunk->items[i];
      if (item.expiry_tick <= current_tick_) {
        item.entry->chunk_ = nullptr;
        --size_;
        expired->PushBack(item.entry);
      } else {
        Insert(item.entry, item.expiry_tick);
      }
    }
    ReleaseChunk(chunk);
    chunk = next;
  }
}

void TimingWheel::AdvanceTo(int64_t now_ns, TimerList* expired) {
  Empty(&due_, expired);
  const int64_t target_tick = FloorDivide(now_ns, tick_ns_);
  if (target_tick <= current_tick_) return;
  for (;;) {
    const Slot slot = FirstFilled();
    if (slot.tick > target_tick) break;
    current_tick_ = slot.tick;
    slot.level->filled &= ~(uint32_t{1} << slot.index);
    Empty(&slot.level->slots[slot.index], expired);
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
