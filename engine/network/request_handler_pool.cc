#include "engine/network/request_handler_pool.h"

#include "absl/strings/str_cat.h"

namespace gyre {

bool HandlerWorker::RunOnce(int64_t now_ns) {
  if (Continuation* continuation = channel_.TryTakeContinuation()) {
    continuation->run(continuation);
    return true;
  }
  if (RequestRun* run = channel_.TryTake(lanes_)) {
    StartRun(run, handler_, clock_);
    return true;
  }
  // Another worker may hold the lane's door while more than one lies behind it.
  return channel_.has_continuations();
}

void HandlerWorker::StartRun(RequestRun* run, RequestHandler& handler, const Clock& clock) {
  // The run lives in its first request, which may be gone once that was started,
  // unless a notice is wanted: then the processor keeps it until the notice.
  ResponseSink* const sink = run->sink;
  const bool wants_notice = run->wants_started_notice;
  ConnectionRequest* request = run->first;
  int64_t now_ns = clock.NowNs();
  while (request != nullptr) {
    ConnectionRequest* const next = request->next_in_run;
    request->times().dequeued_ns = now_ns;
    handler.Start(request);
    now_ns = clock.NowNs();
    if (!request->MarkStarted(now_ns)) {
      if (next == nullptr && wants_notice) sink->EnqueueRunStarted(run);
    } else {
      request->tells_run_started = next == nullptr && wants_notice;
      sink->EnqueueResponse(request);
    }
    request = next;
  }
}

RequestHandlerPool::RequestHandlerPool(int32_t thread_count, RequestChannel& channel,
                                       RequestHandler& handler, const Clock& clock,
                                       absl::string_view name_prefix) {
  for (int32_t i = 0; i < thread_count; ++i) {
    workers_.push_back(std::make_unique<HandlerWorker>(channel, handler, clock));
    threads_.push_back(std::make_unique<ThreadRunner>(absl::StrCat(name_prefix, "handler-", i),
                                                      *workers_.back(), channel.idle_handlers(),
                                                      clock));
  }
}

void RequestHandlerPool::Start() {
  for (const auto& thread : threads_) thread->Start();
}

void RequestHandlerPool::Stop() {
  for (const auto& thread : threads_) thread->RequestStop();
  for (const auto& thread : threads_) thread->Join();
}

}  // namespace gyre
