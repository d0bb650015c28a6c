// One frame on its way from a connection to a handler and back. The response
// travels in the same object, so replying cannot fail and allocates no node.
//
// A handler has it by a RequestPtr, the right to answer it: there is one, it is moved and
// not copied, and answering uses it up. So nobody answers twice, or what is another
// client's request by then, and none is forgotten.
//
// Threads: handoff. The processor fills it, the request channel hands it to one
// handler; from Start() until the answer it belongs to the handler's side.
// Owns: the frame's bytes until ReleaseFrame(), the response until it is sent.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/memory/buffer.h"
#include "engine/network/request/network_send.h"
#include "engine/network/request/response.h"
#include "engine/network/request/session.h"
#include "glog/logging.h"

namespace gyre {

class RequestChannel;

// Nanoseconds of the engine's clock; 0 = not reached.
struct RequestTimes {
  int64_t received_ns = 0;           // frame complete
  int64_t dequeued_ns = 0;           // a handler took it
  int64_t local_complete_ns = 0;     // Start() returned
  int64_t response_ready_ns = 0;     // Respond() called
  int64_t response_dequeued_ns = 0;  // the processor took the response
  int64_t sent_ns = 0;               // last byte handed to the kernel
  int64_t throttle_ns = 0;           // assigned by a quota; a duration
};

class Request : public ResponseNode {
 public:
  // The frame without its length prefix; valid until ReleaseFrame(), or the answer.
  absl::string_view frame() const {
    DCHECK(!is_gone()) << "the frame of a request that was answered";
    return frame_.view();
  }
  // A reference of one's own to the frame's bytes.
  Buffer frame_buffer() const {
    DCHECK(!is_gone()) << "the frame of a request that was answered";
    return frame_;
  }
  // Gives the frame's memory (and its bytes in the memory budget) back early.
  // Delayed operations call it before they wait.
  void ReleaseFrame();

  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  RequestTimes& times() { return times_; }
  // Which API, for metrics; set by the handler. -1 = unknown.
  int16_t api = -1;
  int16_t api_version = -1;
  // Who asks, for log lines and /connections; set by the handler.
  ClientId client_id;
  // What the client runs, once it has said so and it was found well-formed; becomes the
  // session's with the reply.
  void SetClientSoftware(ClientSoftware software) {
    client_software_ = std::make_unique<const ClientSoftware>(std::move(software));
  }

  // Before the answer, at most once: the connection's next request is taken only when the
  // throttling is over, `duration_ns` from now (and this one answered, whichever is later). The
  // reply itself leaves at once, and requests that were taken before, up to max_in_flight, are
  // handled as ever. A duration that is not positive throttles nothing. A connection that is
  // closing or draining is not throttled.
  void Throttle(int64_t duration_ns);
  // The same with an end that the token's holder decides; `assigned_ns` is what the
  // metrics call its throttle time.
  ThrottleToken StartThrottling(int64_t assigned_ns);
  bool throttled() const { return throttled_; }

 protected:
  friend class RequestPtr;

  Request() = default;
  ~Request() = default;

  struct Ending {
    bool closes_after = false;
    const char* close_reason = nullptr;
  };
  void Respond(ResponseKind response_kind, NetworkSend send, Ending ending);
  bool SendThrottleStart(int64_t assigned_ns, int64_t end_ns);

  Buffer frame_;
  int64_t charged_bytes_ = 0;  // in the memory budget, until ReleaseFrame()
  Session* session_ = nullptr;
  RequestChannel* channel_ = nullptr;
  RequestTimes times_;
  // What must both have happened before it goes back. They stay up until its next life.
  static constexpr uint8_t kStarted = 1;
  static constexpr uint8_t kReplied = 2;
  // A RequestPtr cannot be used so late; these find references that somebody kept.
  bool is_replied() const { return (marks_.load(std::memory_order_relaxed) & kReplied) != 0; }
  bool is_gone() const { return marks_.load(std::memory_order_relaxed) == (kStarted | kReplied); }
  std::atomic<uint8_t> marks_{0};
  bool throttled_ = false;
  // On its way before the response, and taken before it.
  ThrottleSignal throttle_start_;
  NetworkSend response_;
  const char* close_reason_ = nullptr;
  bool closes_after_ = false;
  std::unique_ptr<const ClientSoftware> client_software_;
};

// Threads: handoff, like the request; the answer may be given on any.
// Owns: the right to answer. One that ends with it closes the connection, and says so in
// the log: else its client would wait for ever, and a drain with it.
class RequestPtr {
 public:
  RequestPtr() = default;
  explicit RequestPtr(Request* request) : request_(request) {}
  RequestPtr(RequestPtr&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  RequestPtr& operator=(RequestPtr&& other) noexcept {
    RequestPtr taken(std::move(other));
    std::swap(request_, taken.request_);
    return *this;
  }
  ~RequestPtr() {
    if (request_ != nullptr) [[unlikely]]
      Forget();
  }

  // Null once it was answered, or moved from.
  explicit operator bool() const { return request_ != nullptr; }
  Request* operator->() const { return &**this; }
  Request& operator*() const {
    DCHECK(request_ != nullptr) << "a request that was answered or moved";
    return *request_;
  }

  // One of these, on any thread. It is null from then on, and references to the request, its
  // frame and its session are used no more. An answer given inside RequestHandler::Start
  // leaves when Start has returned. Of a null one: ends a debug build, else is logged and
  // dropped.
  void Reply(NetworkSend send) { Respond(ResponseKind::kSend, std::move(send), {}); }
  // When this has left no more requests of the connection are taken. Those that were taken
  // before, up to max_in_flight, are handled and answered, and then it is closed: with
  // max_in_flight 1 this is the last thing it sends.
  void ReplyThenClose(NetworkSend send) {
    Respond(ResponseKind::kSend, std::move(send), {true, nullptr});
  }
  void ReplyNothing() { Respond(ResponseKind::kNoOp, NetworkSend(), {}); }
  // `reason` (static storage) is for the rate-limited log line.
  void CloseConnection(const char* reason) {
    Respond(ResponseKind::kCloseConnection, NetworkSend(), {false, reason});
  }

 private:
  void Respond(ResponseKind response_kind, NetworkSend send, Request::Ending ending);
  void Forget();

  Request* request_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_H_
