// What travels back to the processor of a connection, through one mailbox and in
// order: responses, and the pseudo-responses that start and end its throttling.
//
// Threads: handoff; pushed on any thread, taken by the processor.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_RESPONSE_H_
#define GYRE_ENGINE_NETWORK_REQUEST_RESPONSE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/concurrent/mpsc_queue.h"

namespace gyre {

class ResponseSink;

enum class ResponseKind : uint8_t {
  kSend,             // bytes for the peer
  kNoOp,             // none (acks=0); the next request may be read
  kCloseConnection,  // close after what is already queued has left
  kStartThrottling,
  kEndThrottling,
};

struct ResponseNode : MpscNode {
  ResponseKind kind = ResponseKind::kSend;
};

// Names its connection by slot and generation: one that is gone, or whose slot has
// a new life, is left alone.
struct ThrottleSignal : ResponseNode {
  // A start without an end of its own: somebody sends kEndThrottling.
  static constexpr int64_t kUntilEnded = INT64_MAX;

  uint32_t slot = 0;
  uint32_t generation = 0;
  int64_t end_ns = 0;  // of a start, on the engine's clock
};

// Keeps one connection throttled until End(), or until it is destroyed. What a
// quota manager that times its clients itself holds; the request it came from may
// long be answered and the connection gone. Not to outlive the server.
//
// Threads: one at a time, any.
class ThrottleToken {
 public:
  // Throttles nothing.
  ThrottleToken() = default;
  ThrottleToken(ResponseSink* sink, uint32_t slot, uint32_t generation);
  ThrottleToken(ThrottleToken&& other) noexcept = default;
  ThrottleToken& operator=(ThrottleToken&& other) noexcept {
    End();
    sink_ = other.sink_;
    end_ = std::move(other.end_);
    return *this;
  }
  ~ThrottleToken() { End(); }

  void End();
  bool throttles() const { return end_ != nullptr; }

 private:
  ResponseSink* sink_ = nullptr;
  // Made beforehand, so that ending cannot fail.
  std::unique_ptr<ThrottleSignal> end_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_RESPONSE_H_
