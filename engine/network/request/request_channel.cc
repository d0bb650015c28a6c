#include "engine/network/request/request_channel.h"

#include "glog/logging.h"

namespace gyre {

RequestChannel::RequestChannel(uint32_t capacity, const Clock& clock, MemoryPool& memory,
                               const std::vector<RequestLaneOptions>& lanes)
    : clock_(clock), memory_(memory) {
  CHECK_LE(lanes.size(), static_cast<size_t>(kMaxLanes));
  for (const RequestLaneOptions& lane : lanes) {
    lanes_.push_back(std::make_unique<Lane>(lane, capacity));
  }
  if (lanes_.empty()) lanes_.push_back(std::make_unique<Lane>(RequestLaneOptions(), capacity));
}

size_t RequestChannel::queued_runs() const {
  size_t count = 0;
  for (const auto& lane : lanes_) count += lane->runs.SizeApprox();
  return count;
}

bool RequestChannel::TrySend(RequestRun* run) { return lanes_[run->lane]->runs.TryPush(run); }

void RequestChannel::WaitForRoom(ResponseSink* sink, int lane_index) {
  Lane& lane = *lanes_[Index(lane_index)];
  {
    MutexLock lock(mutex_);
    if (lane.waiters.Contains(sink)) return;
    lane.waiters.PushBack(sink);
    lane.waiter_count.store(static_cast<int32_t>(lane.waiters.size()), std::memory_order_relaxed);
  }
  // Either the pop below sees the waiter, or the caller's next TrySend sees the
  // room: one of the two fences comes first.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

RequestRun* RequestChannel::TryTake(LaneScheduler& scheduler) {
  if (lanes_.size() == 1) return TryTakeFrom(0);
  return scheduler.Next(
      lane_count(), [this](int lane) { return TryTakeFrom(lane); },
      [this](int lane) { return lane_weight(lane); });
}

RequestRun* RequestChannel::TryTakeFrom(int lane_index) {
  Lane& lane = *lanes_[Index(lane_index)];
  RequestRun* run = nullptr;
  if (!lane.runs.TryPop(run)) return nullptr;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (lane.waiter_count.load(std::memory_order_relaxed) > 0) WakeFirstWaiter(lane_index);
  return run;
}

void RequestChannel::PassRoomOn(int lane) {
  if (lanes_[Index(lane)]->waiter_count.load(std::memory_order_relaxed) > 0) WakeFirstWaiter(lane);
}

void RequestChannel::WakeFirstWaiter(int lane_index) {
  Lane& lane = *lanes_[Index(lane_index)];
  MutexLock lock(mutex_);
  if (lane.waiters.empty()) return;
  ResponseSink* const sink = lane.waiters.PopFront();
  lane.waiter_count.store(static_cast<int32_t>(lane.waiters.size()), std::memory_order_relaxed);
  // Under the lock, so that ForgetWaiter returns only when no call is under way.
  sink->EnqueueRoom(lane_index);
}

void RequestChannel::ForgetWaiter(ResponseSink* sink) {
  MutexLock lock(mutex_);
  for (const auto& lane : lanes_) {
    lane->waiters.Remove(sink);
    lane->waiter_count.store(static_cast<int32_t>(lane->waiters.size()), std::memory_order_relaxed);
  }
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
