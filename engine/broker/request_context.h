// One request as a handler sees it: what its header said, its body still to be
// decoded, and the way to answer. Delayed operations keep it.
//
// Threads: handoff, like the Request behind it. Views into the frame end with
// ReleaseFrame().
// Owns: the right to answer, which the first Reply…, ReplyNothing or Close uses up.
// Borrows: allocator and metrics.
#ifndef GYRE_ENGINE_BROKER_REQUEST_CONTEXT_H_
#define GYRE_ENGINE_BROKER_REQUEST_CONTEXT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/broker/broker_metrics.h"
#include "engine/fs/file_slice.h"
#include "engine/memory/buffer.h"
#include "engine/memory/buffer_allocator.h"
#include "engine/network/request/request.h"
#include "proto/frame.h"
#include "proto/wire/api_key.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

namespace gyre {

class RequestContext {
 public:
  // What the arrays of one decoded request may take in memory.
  static constexpr size_t kMaxDecodedBytes = size_t{64} << 20;

  RequestContext(RequestPtr request, BufferAllocator* allocator, ErrorMetrics* errors, ApiKey api,
                 int16_t version, int32_t correlation_id, absl::string_view client_id,
                 absl::string_view body)
      : request_(std::move(request)),
        allocator_(allocator),
        errors_(errors),
        api_(api),
        version_(version),
        correlation_id_(correlation_id),
        client_id_(client_id),
        body_(body) {}

  ApiKey api() const { return api_; }
  int16_t version() const { return version_; }
  int32_t correlation_id() const { return correlation_id_; }
  // "" when the client sent null.
  absl::string_view client_id() const { return client_id_; }
  Session& session() const { return request_->session(); }
  Request* request() const { return &*request_; }
  // Nobody is there any more to be answered. Precondition: not yet answered.
  bool abandoned() const { return session().gone.load(std::memory_order_relaxed); }

  // False when the body is malformed: the connection is then being closed and
  // the context is spent. Bytes after the body are ignored, as Kafka does.
  template <typename Message>
  bool Decode(Message& message) {
    wire::Reader reader(body_);
    reader.set_allocation_limit(kMaxDecodedBytes);
    if (message.Decode(reader, version_)) return true;
    Close("malformed request body");
    return false;
  }

  // `slices` fill the response's external records, in order.
  template <typename Response>
  void Reply(const Response& response, absl::Span<FileSlice> slices = {}) {
    ReplyAs(response, version_, slices);
  }
  // In another version than the request's (ApiVersions alone needs it).
  template <typename Response>
  void ReplyAs(const Response& response, int16_t version, absl::Span<FileSlice> slices = {}) {
    const size_t size_bytes = proto::ResponseSize(response, version);
    Buffer buffer = allocator_->Allocate(static_cast<uint32_t>(size_bytes));
    wire::Writer writer(buffer.data(), size_bytes);
    proto::EncodeResponse(writer, response, correlation_id_, version);
    ForEachErrorCode(response, [this](ErrorCode code) { CountError(code); });
    Send(std::move(buffer), writer, slices);
  }
  void ReplyNothing() { request_.ReplyNothing(); }
  // For an error that no answer tells.
  void CountError(ErrorCode code) const { errors_->Count(api_, code); }
  // `reason` has static storage.
  void Close(const char* reason) { request_.CloseConnection(reason); }

  // The client's bytes are no longer needed: their memory goes back now.
  void ReleaseFrame() {
    client_id_ = body_ = absl::string_view();
    request_->ReleaseFrame();
  }

 private:
  void Send(Buffer buffer, const wire::Writer& writer, absl::Span<FileSlice> slices);

  RequestPtr request_;
  BufferAllocator* allocator_;
  ErrorMetrics* errors_;
  ApiKey api_;
  int16_t version_;
  int32_t correlation_id_;
  absl::string_view client_id_;
  absl::string_view body_;
};

// Cuts `buffer` at the writer's holes and puts the slices there. Precondition:
// the sizes of the slices add up, hole by hole.
NetworkSend AssembleResponse(Buffer buffer, const wire::Writer& writer,
                             absl::Span<FileSlice> slices);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_REQUEST_CONTEXT_H_
