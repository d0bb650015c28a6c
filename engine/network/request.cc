#include "engine/network/request.h"

#include "engine/network/request_channel.h"
#include "engine/network/request_run.h"

namespace gyre {

void Request::ReleaseFrame() {
  frame_.Reset();
  if (charged_bytes_ == 0) return;
  channel_->ReleaseRequestBytes(charged_bytes_);
  charged_bytes_ = 0;
}

void Request::Respond(ResponseKind kind, NetworkSend send) {
  response_kind_ = kind;
  response_ = std::move(send);
  times_.response_ready_ns = channel_->clock().NowNs();
  ConnectionRequest* self = static_cast<ConnectionRequest*>(this);
  ResponseSink* sink = self->sink();
  if (self->MarkReplied()) sink->EnqueueResponse(self);
}

}  // namespace gyre
