#include "engine/concurrent/thread_runner.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gyre {

thread_local const ThreadRunner* ThreadRunner::here_ = nullptr;

ThreadRunner::ThreadRunner(std::string name, ThreadBody& body, EventCount& wakeup,
                           const Clock& clock)
    : name_(std::move(name)), body_(body), wakeup_(&wakeup), waiter_(nullptr), clock_(clock) {}

ThreadRunner::ThreadRunner(std::string name, ThreadBody& body, ThreadWaiter& waiter,
                           const Clock& clock)
    : name_(std::move(name)), body_(body), wakeup_(nullptr), waiter_(&waiter), clock_(clock) {}

ThreadRunner::~ThreadRunner() { Stop(); }

absl::Status ThreadRunner::Start() {
  // Not std::thread, which throws where this answers.
  const auto run = [](void* self) -> void* {
    auto* const runner = static_cast<ThreadRunner*>(self);
    pthread_setname_np(pthread_self(), runner->name_.substr(0, 15).c_str());
    runner->Loop();
    return nullptr;
  };
  const int error = pthread_create(&thread_, nullptr, run, this);
  if (error != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread for ", name_, ": ", std::strerror(error),
                     "; allow more (ulimit -u, the container's pids limit, systemd's TasksMax)"));
  }
  running_ = true;
  return absl::OkStatus();
}

void ThreadRunner::RequestStop() {
  // seq_cst: Park looks at it after announcing its wait.
  stop_requested_.store(true, std::memory_order_seq_cst);
  if (wakeup_ != nullptr) {
    wakeup_->NotifyAll();
  } else {
    waiter_->Wake();
  }
}

void ThreadRunner::Join() {
  if (std::exchange(running_, false)) pthread_join(thread_, nullptr);
}

void ThreadRunner::Loop() {
  here_ = this;
  body_.OnThreadStart();
  while (!stop_requested_.load(std::memory_order_acquire)) {
    const int64_t now_ns = clock_.NowNs();
    idle_.End(now_ns);
    if (!body_.RunOnce(now_ns)) Park();
  }
  body_.OnThreadStop();
}

void ThreadRunner::Park() {
  if (waiter_ != nullptr) {
    waiter_->Wait(clock_.NowNs(), body_.NextDeadlineNs());
    return;
  }
  const EventCount::Key key = wakeup_->PrepareWait();
  const int64_t now_ns = clock_.NowNs();
  if (stop_requested_.load(std::memory_order_seq_cst) || body_.RunOnce(now_ns)) {
    wakeup_->CancelWait();
    return;
  }
  const int64_t deadline_ns = body_.NextDeadlineNs();
  if (deadline_ns == ThreadBody::kNever) {
    idle_.Begin(now_ns);
    wakeup_->CommitWait(key);
  } else if (deadline_ns > now_ns) {
    idle_.Begin(now_ns);
    wakeup_->CommitWait(key, deadline_ns - now_ns);
  } else {
    wakeup_->CancelWait();
  }
}

}  // namespace gyre
