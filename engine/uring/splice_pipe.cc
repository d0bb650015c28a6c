#include "engine/uring/splice_pipe.h"

namespace gyre::uring {

SplicePipePool::~SplicePipePool() {
  for (const PipeFds& pipe : idle_) ring_.ClosePipe(pipe);
}

std::optional<PipeFds> SplicePipePool::Take() {
  if (!idle_.empty()) {
    const PipeFds pipe = idle_.back();
    idle_.pop_back();
    ++leased_;
    return pipe;
  }
  if (leased_ >= max_pipes_) return std::nullopt;
  const absl::StatusOr<PipeFds> pipe = ring_.OpenPipe(pipe_capacity_bytes_);
  if (!pipe.ok()) return std::nullopt;
  ++leased_;
  return *pipe;
}

SplicePipePool::Lease SplicePipePool::TryLease(Waiter waiter) {
  if (waiters_.empty()) {
    if (const std::optional<PipeFds> pipe = Take(); pipe.has_value()) {
      return {LeaseOutcome::kLeased, *pipe};
    }
    // With none out there, nothing would ever end the wait.
    if (leased_ == 0) return {LeaseOutcome::kFailed, {}};
  }
  waiters_.PushBack(waiter);
  return {LeaseOutcome::kQueued, {}};
}

void SplicePipePool::Return(const PipeFds& pipe) {
  --leased_;
  idle_.push_back(pipe);
}

void SplicePipePool::Discard(const PipeFds& pipe) {
  --leased_;
  ring_.ClosePipe(pipe);
}

void SplicePipePool::Forget(Waiter waiter) { waiters_.Remove(waiter); }

std::optional<SplicePipePool::Grant> SplicePipePool::GrantNext() {
  if (waiters_.empty()) return std::nullopt;
  const std::optional<PipeFds> pipe = Take();
  if (!pipe.has_value()) return std::nullopt;
  const Waiter waiter = waiters_.PopFront();
  return Grant{waiter, *pipe};
}

}  // namespace gyre::uring
