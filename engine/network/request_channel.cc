#include "engine/network/request_channel.h"

#include <algorithm>

namespace gyre {

RequestChannel::RequestChannel(uint32_t capacity, const Clock& clock, MemoryPool& memory)
    : clock_(clock), memory_(memory), runs_(capacity) {}

bool RequestChannel::TrySend(RequestRun* run) {
  if (!runs_.TryPush(run)) return false;
  idle_handlers_.NotifyOne();
  return true;
}

void RequestChannel::WaitForRoom(ResponseSink* sink) {
  {
    MutexLock lock(mutex_);
    if (std::find(waiters_.begin(), waiters_.end(), sink) != waiters_.end()) return;
    waiters_.push_back(sink);
    waiter_count_.store(static_cast<int32_t>(waiters_.size()), std::memory_order_relaxed);
  }
  // Either the pop below sees the waiter, or the caller's next TrySend sees the
  // room: one of the two fences comes first.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

RequestRun* RequestChannel::TryTake() {
  RequestRun* run = nullptr;
  if (!runs_.TryPop(run)) return nullptr;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiter_count_.load(std::memory_order_relaxed) > 0) WakeFirstWaiter();
  return run;
}

void RequestChannel::PassRoomOn() {
  if (waiter_count_.load(std::memory_order_relaxed) > 0) WakeFirstWaiter();
}

void RequestChannel::WakeFirstWaiter() {
  ResponseSink* sink = nullptr;
  {
    MutexLock lock(mutex_);
    if (waiters_.empty()) return;
    sink = waiters_.front();
    waiters_.pop_front();
    waiter_count_.store(static_cast<int32_t>(waiters_.size()), std::memory_order_relaxed);
    // Under the lock, so that ForgetWaiter returns only when no call is under way.
    sink->EnqueueRoom();
  }
}

void RequestChannel::ForgetWaiter(ResponseSink* sink) {
  MutexLock lock(mutex_);
  waiters_.erase(std::remove(waiters_.begin(), waiters_.end(), sink), waiters_.end());
  waiter_count_.store(static_cast<int32_t>(waiters_.size()), std::memory_order_relaxed);
}

void RequestChannel::Post(Continuation* continuation) {
  continuation_count_.fetch_add(1, std::memory_order_seq_cst);
  continuations_.Push(continuation);
  idle_handlers_.NotifyOne();
}

void RequestChannel::DropAll() {
  while (Continuation* continuation = TryTakeContinuation()) {
    if (continuation->drop != nullptr) continuation->drop(continuation);
  }
}

Continuation* RequestChannel::TryTakeContinuation() {
  if (continuation_count_.load(std::memory_order_acquire) == 0) return nullptr;
  if (taking_continuation_.test_and_set(std::memory_order_acquire)) return nullptr;
  MpscNode* node = continuations_.Pop();
  if (node != nullptr) continuation_count_.fetch_sub(1, std::memory_order_relaxed);
  taking_continuation_.clear(std::memory_order_release);
  return static_cast<Continuation*>(node);
}

}  // namespace gyre
