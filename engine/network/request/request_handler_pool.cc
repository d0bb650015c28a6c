#include "engine/network/request/request_handler_pool.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/poll_until.h"
#include "engine/network/request/resize_rule.h"
#include "glog/logging.h"

namespace gyre {

bool HandlerWorker::RunOnce(int64_t now_ns) {
  if (Continuation* continuation = channel_.TryTakeContinuation()) {
    turn_.BeginContinuation(now_ns);
    continuation->run(continuation);
    turn_.End();
    return true;
  }
  if (RequestRun* run = channel_.TryTake(lanes_)) {
    StartRun(run, handler_, clock_, turn_);
    return true;
  }
  // Not to be slept over: another worker may hold the door of the continuations while
  // more than one lies behind it, and a sender that stands in the middle of its push
  // may hide whole runs, of which nobody will tell again.
  return channel_.has_continuations() || channel_.queued_runs() > 0;
}

void HandlerWorker::StartRun(RequestRun* run, RequestHandler& handler, const Clock& clock,
                             HandlerTurn& turn) {
  // The run lives in its first request, which may be gone once that was started,
  // unless a notice is wanted: then the processor keeps it until the notice.
  ResponseSink* const sink = run->sink;
  const bool wants_notice = run->wants_started_notice;
  const int lane = run->lane;
  ConnectionRequest* request = run->first;
  int64_t now_ns = clock.NowNs();
  while (request != nullptr) {
    ConnectionRequest* const next = request->next_in_run;
    request->times().dequeued_ns = now_ns;
    turn.BeginRequest(lane, handler.ApiOf(*request), now_ns);
    handler.Start(RequestPtr(request));
    now_ns = clock.NowNs();
    if (!request->MarkStarted(now_ns)) {
      if (next == nullptr && wants_notice) sink->EnqueueRunStarted(run);
    } else {
      request->tells_run_started = next == nullptr && wants_notice;
      sink->EnqueueResponse(request);
    }
    request = next;
  }
  turn.End();
}

RequestHandlerPool::RequestHandlerPool(int32_t thread_count, RequestChannel& channel,
                                       RequestHandler& handler, const Clock& clock,
                                       absl::string_view name_prefix)
    : channel_(channel), handler_(handler), clock_(clock), name_prefix_(name_prefix) {
  MutexLock lock(mutex_);
  for (int32_t i = 0; i < thread_count; ++i) Add();
}

void RequestHandlerPool::Add() {
  Member member;
  member.worker = std::make_unique<HandlerWorker>(channel_, handler_, clock_);
  member.thread =
      std::make_unique<ThreadRunner>(absl::StrCat(name_prefix_, "handler-", members_.size()),
                                     *member.worker, channel_.idle_handlers(), clock_);
  members_.push_back(std::move(member));
}

absl::Status RequestHandlerPool::Start() {
  MutexLock change(change_mutex_);
  MutexLock lock(mutex_);
  changeable_ = true;
  for (const Member& member : members_) GYRE_RETURN_IF_ERROR(member.thread->Start());
  return absl::OkStatus();
}

int64_t RequestHandlerPool::IdleNs(int64_t now_ns, int* handler_count) const {
  MutexLock lock(mutex_);
  *handler_count = static_cast<int>(members_.size());
  int64_t idle_ns = 0;
  for (const Member& member : members_) idle_ns += member.thread->IdleNs(now_ns);
  return idle_ns;
}

void RequestHandlerPool::ForEachTurn(TurnVisitor visit) const {
  MutexLock lock(mutex_);
  for (const std::vector<Member>* members : {&members_, &leaving_}) {
    for (const Member& member : *members) {
      const std::optional<HandlerTurn::State> turn = member.worker->turn().Read();
      if (turn.has_value()) visit(member.thread->name(), *turn);
    }
  }
}

void RequestHandlerPool::RefuseChanges() {
  MutexLock lock(mutex_);
  changeable_ = false;
}

void RequestHandlerPool::Stop() {
  RefuseChanges();
  MutexLock change(change_mutex_);
  std::vector<ThreadRunner*> threads;
  {
    MutexLock lock(mutex_);
    for (const std::vector<Member>* members : {&members_, &leaving_}) {
      for (const Member& member : *members) threads.push_back(member.thread.get());
    }
  }
  for (ThreadRunner* thread : threads) thread->RequestStop();
  for (ThreadRunner* thread : threads) thread->Join();
}

void RequestHandlerPool::Dismiss(size_t count) {
  for (size_t i = count; i < members_.size(); ++i) {
    members_[i].thread->RequestStop();
    leaving_.push_back(std::move(members_[i]));
  }
  members_.resize(count);
}

absl::Status RequestHandlerPool::Resize(int32_t thread_count, int64_t wait_ms) {
  MutexLock change(change_mutex_);
  ReapLeaving();
  absl::Status grown;
  {
    MutexLock lock(mutex_);
    if (!changeable_) {
      return absl::FailedPreconditionError("handler threads change only while the server serves");
    }
    const auto from = static_cast<int32_t>(members_.size());
    GYRE_RETURN_IF_ERROR(CheckResize("num_io_threads", from, thread_count));
    const auto count = static_cast<size_t>(thread_count);
    while (members_.size() < count && grown.ok()) {
      Add();
      grown = members_.back().thread->Start();
      if (!grown.ok()) members_.pop_back();
    }
    Dismiss(grown.ok() ? count : static_cast<size_t>(from));
  }
  bool none_left = false;
  const auto ended_or_refused = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_) {
    none_left = ReapLeaving();
    return none_left || !changeable();
  };
  PollUntil(ended_or_refused, wait_ms);
  if (!none_left) LOG(INFO) << "handlers that end still have a request under way; they end with it";
  // One that goes may have been woken for a run that it then left.
  channel_.idle_handlers().NotifyAll();
  return grown;
}

bool RequestHandlerPool::changeable() const {
  MutexLock lock(mutex_);
  return changeable_;
}

bool RequestHandlerPool::ReapLeaving() {
  std::vector<Member> ended;
  bool none_left = false;
  {
    MutexLock lock(mutex_);
    const auto gone = std::partition(leaving_.begin(), leaving_.end(),
                                     [](const Member& member) { return !member.worker->ended(); });
    std::move(gone, leaving_.end(), std::back_inserter(ended));
    leaving_.erase(gone, leaving_.end());
    none_left = leaving_.empty();
  }
  for (const Member& member : ended) member.thread->Join();
  return none_left;
}

bool RequestHandlerPool::runs_here() const {
  MutexLock lock(mutex_);
  const auto is_here = [](const Member& member) { return member.thread->runs_here(); };
  return std::any_of(members_.begin(), members_.end(), is_here) ||
         std::any_of(leaving_.begin(), leaving_.end(), is_here);
}

int32_t RequestHandlerPool::size() const {
  MutexLock lock(mutex_);
  return static_cast<int32_t>(members_.size());
}

}  // namespace gyre
