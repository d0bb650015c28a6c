#include "engine/memory/memory_pool.h"

namespace gyre {

bool MemoryPool::TryReserve(int64_t bytes, MemoryUse use) {
  if (whole_waiters_.load(std::memory_order_relaxed) != 0) return false;
  const bool must_wait = use == MemoryUse::kWhole
                             ? partial_first_.load(std::memory_order_relaxed)
                             : partial_waiters_.load(std::memory_order_relaxed) != 0;
  if (must_wait) return false;
  if (TryTake(bytes, use)) return true;
  // Another may have been refused for the share that was taken for a moment.
  if (use == MemoryUse::kPartial) OnReturned(0);
  return false;
}

bool MemoryPool::TryAdd(std::atomic<int64_t>* sum, int64_t bytes, int64_t limit_bytes) {
  int64_t value = sum->load(std::memory_order_seq_cst);
  do {
    if (bytes > limit_bytes - value) return false;
  } while (!sum->compare_exchange_weak(value, value + bytes, std::memory_order_seq_cst));
  return true;
}

bool MemoryPool::TryTake(int64_t bytes, MemoryUse use) {
  if (use == MemoryUse::kWhole) return TryAdd(&used_bytes_, bytes, capacity_bytes_);
  if (!TryAdd(&partial_bytes_, bytes, partial_capacity_bytes_)) return false;
  if (TryAdd(&used_bytes_, bytes, capacity_bytes_)) return true;
  partial_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  return false;
}

void MemoryPool::Release(int64_t bytes, MemoryUse use) {
  if (use == MemoryUse::kPartial) partial_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  used_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  OnReturned(bytes);
}

void MemoryPool::MakeWhole(int64_t bytes) {
  if (bytes == 0) return;
  partial_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  OnReturned(0);
}

void MemoryPool::OnReturned(int64_t passed_bytes) {
  if (!anyone_waits()) return;
  MutexLock lock(mutex_);
  if (MemoryWaiter* partial = partial_.front(); partial != nullptr && FitsShare(*partial)) {
    passed_bytes_ = std::min(passed_bytes_ + passed_bytes, capacity_bytes_);
  }
  ServeWaiters();
}

bool MemoryPool::Wait(MemoryWaiter* waiter) {
  const bool whole = waiter->use == MemoryUse::kWhole;
  if (waiter->bytes > (whole ? capacity_bytes_ : partial_capacity_bytes_)) return false;
  MutexLock lock(mutex_);
  list_of(waiter->use).PushBack(waiter);
  count_of(waiter->use).fetch_add(1, std::memory_order_seq_cst);
  ServeWaiters();
  return true;
}

bool MemoryPool::CancelWait(MemoryWaiter* waiter) {
  MutexLock lock(mutex_);
  if (!waiter->linked()) return false;
  Leave(waiter);
  // It may have been the large one that held back those behind it.
  ServeWaiters();
  return true;
}

bool MemoryPool::WaitsForPartials() {
  MutexLock lock(mutex_);
  const int64_t partial_bytes = partial_bytes_.load(std::memory_order_relaxed);
  if (MemoryWaiter* whole = whole_.front();
      whole != nullptr && whole->bytes > capacity_bytes_ - partial_bytes) {
    return true;
  }
  MemoryWaiter* const partial = partial_.front();
  return partial != nullptr && !FitsShare(*partial);
}

void MemoryPool::Leave(MemoryWaiter* waiter) {
  if (waiter == partial_.front()) passed_bytes_ = 0;
  waiter->Unlink();
  count_of(waiter->use).fetch_sub(1, std::memory_order_seq_cst);
}

void MemoryPool::ServeWaiters() {
  for (;;) {
    MemoryWaiter* const partial = partial_.front();
    const bool partial_first =
        partial != nullptr && passed_bytes_ >= capacity_bytes_ && FitsShare(*partial);
    partial_first_.store(partial_first, std::memory_order_relaxed);
    MemoryWaiter* waiter = whole_.front();
    if (waiter == nullptr || partial_first) waiter = partial;
    if (waiter == nullptr || !TryTake(waiter->bytes, waiter->use)) return;
    Leave(waiter);
    waiter->on_granted(waiter);
  }
}

}  // namespace gyre
