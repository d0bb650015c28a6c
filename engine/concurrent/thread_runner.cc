#include "engine/concurrent/thread_runner.h"

#include <pthread.h>

#include <utility>

namespace gyre {

ThreadRunner::ThreadRunner(std::string name, ThreadBody& body, EventCount& wakeup,
                           const Clock& clock)
    : name_(std::move(name)), body_(body), wakeup_(&wakeup), waiter_(nullptr), clock_(clock) {}

ThreadRunner::ThreadRunner(std::string name, ThreadBody& body, ThreadWaiter& waiter,
                           const Clock& clock)
    : name_(std::move(name)), body_(body), wakeup_(nullptr), waiter_(&waiter), clock_(clock) {}

ThreadRunner::~ThreadRunner() { Stop(); }

void ThreadRunner::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Loop();
  });
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
  if (thread_.joinable()) thread_.join();
}

void ThreadRunner::Loop() {
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
