#include "engine/concurrent/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>

namespace gyre {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the epoch is the first four bytes of the state");

void FutexWait(const void* word, uint32_t expected, int64_t timeout_ns) {
  timespec timeout;
  timeout.tv_sec = timeout_ns / 1'000'000'000;
  timeout.tv_nsec = timeout_ns % 1'000'000'000;
  // Every outcome (woken, value changed, timed out, signal) means "look again".
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? nullptr : &timeout,
          nullptr, 0);
}

void FutexWake(const void* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace

void EventCount::CommitWait(Key key, int64_t timeout_ns) {
  // No loop on "epoch == key": the kernel may spend a wake-up meant for an
  // older sleeper on this one, and going back to sleep would lose it.
  if ((state_.load(std::memory_order_acquire) & kEpochMask) == key) {
    FutexWait(&state_, key, timeout_ns);
  }
  Leave();
}

void EventCount::NotifySlow(uint32_t count) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  uint64_t desired;
  uint32_t woken;
  do {
    const uint32_t waiters = Waiters(state);
    const uint32_t signals = Signals(state);
    woken = std::min(count, waiters - signals);
    if (woken == 0) return;
    // Epoch and count change in one step: a waiter whose key is the old epoch
    // does not fall asleep, one that prepares later is not counted as signalled.
    const uint64_t epoch = (state + 1) & kEpochMask;
    const uint64_t signalled = uint64_t{signals} + woken;
    desired = (uint64_t{waiters} << kWaiterShift) | (signalled << kSignalShift) | epoch;
  } while (!state_.compare_exchange_weak(state, desired, std::memory_order_seq_cst,
                                         std::memory_order_relaxed));
  FutexWake(&state_, count == kAll ? INT_MAX : static_cast<int>(woken));
}

void EventCount::Leave() {
  uint64_t state = state_.load(std::memory_order_relaxed);
  uint64_t desired;
  do {
    // Whoever leaves takes a signal along, whoever it was meant for: too many
    // notifies cost a system call, too few would lose a wake-up.
    desired = state - kOneWaiter - (Signals(state) > 0 ? kOneSignal : 0);
  } while (!state_.compare_exchange_weak(state, desired, std::memory_order_seq_cst,
                                         std::memory_order_relaxed));
}

}  // namespace gyre
