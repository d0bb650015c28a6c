#include "engine/memory/memory_pool.h"

namespace gyre {

bool MemoryPool::TryReserve(int64_t bytes) {
  if (waiter_count_.load(std::memory_order_relaxed) != 0) return false;
  return TryTake(bytes);
}

bool MemoryPool::TryTake(int64_t bytes) {
  int64_t used = used_bytes_.load(std::memory_order_seq_cst);
  do {
    if (bytes > capacity_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_seq_cst));
  return true;
}

void MemoryPool::Release(int64_t bytes) {
  used_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  if (waiter_count_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(mutex_);
  ServeWaiters();
}

bool MemoryPool::Wait(MemoryWaiter* waiter) {
  if (waiter->bytes > capacity_bytes_) return false;
  MutexLock lock(mutex_);
  waiters_.PushBack(waiter);
  waiter_count_.fetch_add(1, std::memory_order_seq_cst);
  ServeWaiters();
  return true;
}

bool MemoryPool::CancelWait(MemoryWaiter* waiter) {
  MutexLock lock(mutex_);
  if (!waiter->linked()) return false;
  waiter->Unlink();
  waiter_count_.fetch_sub(1, std::memory_order_seq_cst);
  // It may have been the large one that held back those behind it.
  ServeWaiters();
  return true;
}

void MemoryPool::ServeWaiters() {
  while (MemoryWaiter* waiter = waiters_.front()) {
    if (!TryTake(waiter->bytes)) return;
    waiter->Unlink();
    waiter_count_.fetch_sub(1, std::memory_order_seq_cst);
    waiter->on_granted(waiter);
  }
}

}  // namespace gyre
