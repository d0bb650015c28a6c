#include "engine/network/request/request.h"

#include <algorithm>

#include "engine/network/request/request_channel.h"
#include "engine/network/request/request_run.h"
#include "glog/logging.h"

namespace gyre {

void Request::ReleaseFrame() {
  frame_.Reset();
  if (charged_bytes_ == 0) return;
  channel_->memory().Release(charged_bytes_, MemoryUse::kWhole);
  charged_bytes_ = 0;
}

bool Request::SendThrottleStart(int64_t assigned_ns, int64_t end_ns) {
  DCHECK(!throttled_) << "the larger of several throttle times applies, once";
  if (throttled_) return false;
  DCHECK(!is_replied()) << "a throttling of a request that was answered";
  if (is_replied()) [[unlikely]]
    return false;
  ConnectionRequest* self = static_cast<ConnectionRequest*>(this);
  throttled_ = true;
  times_.throttle_ns = assigned_ns;
  throttle_start_.kind = ResponseKind::kStartThrottling;
  throttle_start_.slot = self->slot();
  throttle_start_.generation = self->generation();
  throttle_start_.end_ns = end_ns;
  self->sink()->EnqueueThrottle(&throttle_start_);
  return true;
}

void Request::Throttle(int64_t duration_ns) {
  if (duration_ns <= 0) return;
  const int64_t now_ns = channel_->clock().NowNs();
  const int64_t longest_ns = ThrottleSignal::kUntilEnded - 1 - now_ns;
  SendThrottleStart(duration_ns, now_ns + std::min(duration_ns, longest_ns));
}

ThrottleToken Request::StartThrottling(int64_t assigned_ns) {
  // A token that is made ends something, so only for what has begun.
  if (!SendThrottleStart(assigned_ns, ThrottleSignal::kUntilEnded)) return ThrottleToken();
  ConnectionRequest* self = static_cast<ConnectionRequest*>(this);
  return ThrottleToken(self->sink(), self->slot(), self->generation());
}

void Request::Respond(ResponseKind response_kind, NetworkSend send, Ending ending) {
  if (!send.valid()) [[unlikely]] {
    response_kind = ResponseKind::kCloseConnection;
    send = NetworkSend();
    ending.close_reason = "an answer with a file slice that is none";
  }
  kind = response_kind;
  closes_after_ = ending.closes_after;
  close_reason_ = ending.close_reason;
  response_ = std::move(send);
  times_.response_ready_ns = channel_->clock().NowNs();
  ConnectionRequest* self = static_cast<ConnectionRequest*>(this);
  ResponseSink* sink = self->sink();
  if (self->MarkReplied()) sink->EnqueueResponse(self);
}

void RequestPtr::Respond(ResponseKind response_kind, NetworkSend send, Request::Ending ending) {
  DCHECK(request_ != nullptr) << "a request was answered twice";
  if (request_ == nullptr) [[unlikely]] {
    LOG_EVERY_N(ERROR, 1000) << "a request was answered twice: the second answer is dropped";
    return;
  }
  std::exchange(request_, nullptr)->Respond(response_kind, std::move(send), ending);
}

void RequestPtr::Forget() {
  LOG_EVERY_N(ERROR, 1000) << "a handler forgot to answer a request of api " << request_->api
                           << " of " << request_->session().peer.ToString()
                           << ": its connection is closed";
  CloseConnection("a handler forgot to answer");
}

ThrottleToken::ThrottleToken(ResponseSink* sink, uint32_t slot, uint32_t generation)
    : sink_(sink), end_(std::make_unique<ThrottleSignal>()) {
  sink->throttle_tokens.fetch_add(1, std::memory_order_relaxed);
  end_->kind = ResponseKind::kEndThrottling;
  end_->slot = slot;
  end_->generation = generation;
}

void ThrottleToken::End() {
  if (end_ == nullptr) return;
  sink_->EnqueueThrottle(end_.release());
  sink_->throttle_tokens.fetch_sub(1, std::memory_order_release);
}

}  // namespace gyre
