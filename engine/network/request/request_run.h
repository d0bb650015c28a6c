// What the request channel carries: a run, up to N consecutive frames of one
// connection and one lane (N = max_in_flight_requests_per_connection). At most one
// run of a connection is queued or starting, so its requests start in order on one
// handler; they finish in any order and leave in order.
//
// A request goes back to its processor once it is both started (Start returned)
// and replied to; whichever side comes second pushes it. So the processor never
// frees a request that a handler still stands in, at no extra hand-over.
//
// Threads: handoff (processor -> one handler -> processor); the two marks are
// atomic, because reply and return may come on different threads.
// Owns: the frames and responses of its requests.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_RUN_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/intrusive_list.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/network/request/request.h"

namespace gyre {

class ConnectionRequest;
struct RequestRun;

// The way back: implemented by the processor that owns the connection.
class ResponseSink {
 public:
  // Any thread; never fails, never waits.
  virtual void EnqueueResponse(ConnectionRequest* request) = 0;
  // The same way and in order with the responses. The start of a throttling lies in
  // its request and comes before the response; an end is the sink's to delete.
  virtual void EnqueueThrottle(ThrottleSignal* signal) = 0;
  // Every request of the run was started: the connection's next run may go. Sent
  // only for runs with `wants_started_notice`, and not when the response of the
  // run's last request says it (`tells_run_started`).
  virtual void EnqueueRunStarted(RequestRun* run) = 0;
  // The lane of the channel that was full has room again.
  virtual void EnqueueRoom(int lane) = 0;

  // Tokens that will yet send an end; any thread.
  std::atomic<int64_t> throttle_tokens{0};

 protected:
  ~ResponseSink() = default;
};

struct ParkedTag;  // the processor's runs that wait for room in the channel

// Lives inside the run's first request.
struct RequestRun : MpscNode, IntrusiveListNode<ParkedTag> {
  ConnectionRequest* first = nullptr;
  ResponseSink* sink = nullptr;
  uint32_t count = 0;
  uint8_t lane = 0;
  // With N = 1 the response says it all, and the run is not looked at again.
  bool wants_started_notice = false;
};

class ConnectionRequest final : public Request {
 public:
  ConnectionRequest() = default;
  ConnectionRequest(const ConnectionRequest&) = delete;
  ConnectionRequest& operator=(const ConnectionRequest&) = delete;

  // Processor: makes a pooled object ready for a new life.
  void Fill(RequestChannel* channel, ResponseSink* sink, Session* session, uint32_t slot,
            uint32_t generation, Buffer frame, int64_t charged_bytes, int64_t received_ns) {
    api = -1;
    api_version = -1;
    frame_ = std::move(frame);
    frame_bytes_ = frame_.size_bytes();
    charged_bytes_ = charged_bytes;
    session_ = session;
    channel_ = channel;
    times_ = RequestTimes{};
    times_.received_ns = received_ns;
    kind = ResponseKind::kSend;
    throttled_ = false;
    close_reason_ = nullptr;
    closes_after_ = false;
    client_id.Clear();
    client_software_.reset();
    sink_ = sink;
    slot_ = slot;
    generation_ = generation;
    marks_.store(0, std::memory_order_relaxed);
    lane = 0;
    alone = false;
    in_flight_bytes = frame_bytes_;
    next_in_run = nullptr;
    first_in_run = nullptr;
    tells_run_started = false;
    next_in_order = nullptr;
    ready = false;
    run_notice_pending = false;
    finished = false;
  }

  // Processor: what it is charged in the budget is the caller's to give back.
  int64_t TakeCharge() { return std::exchange(charged_bytes_, 0); }

  // The handler side: Start returned. True: the reply came before, and the caller
  // must take it to the sink. `this` is the sink's business from then on; on
  // false it is gone for the caller.
  bool MarkStarted(int64_t now_ns) {
    times_.local_complete_ns = now_ns;
    return Mark(kStarted) != 0;
  }
  // The replying side; true: Start returned before, and nobody replied.
  bool MarkReplied() { return Mark(kReplied) == kStarted; }
  // Start returned, and somebody has the right to answer still. Not true of an answer that
  // is being given at this moment.
  bool awaits_answer() const { return marks_.load(std::memory_order_acquire) == kStarted; }

  ResponseSink* sink() const { return sink_; }
  uint32_t slot() const { return slot_; }
  uint32_t generation() const { return generation_; }
  uint32_t frame_bytes() const { return frame_bytes_; }
  ResponseKind response_kind() const { return kind; }
  NetworkSend& response() { return response_; }
  bool response_empty() const { return response_.empty(); }
  const char* close_reason() const { return close_reason_; }
  bool closes_after() const { return closes_after_; }
  // Null: it was not told.
  std::unique_ptr<const ClientSoftware> TakeClientSoftware() { return std::move(client_software_); }
  void ReleaseResponse() { response_ = NetworkSend(); }

  // The run's links: written by the processor before the hand-over.
  ConnectionRequest* next_in_run = nullptr;
  ConnectionRequest* first_in_run = nullptr;
  RequestRun run;

  // Of the run's last request, written by whoever starts it before the response goes:
  // it needed no notice, because it was answered by then.
  bool tells_run_started = false;

  // The processor's own, never touched by another thread.
  uint8_t lane = 0;
  bool alone = false;           // nothing else of its connection is in flight with it
  int64_t in_flight_bytes = 0;  // of the connection's budget
  ConnectionRequest* next_in_order = nullptr;
  bool ready = false;               // the response is here
  bool run_notice_pending = false;  // `run` is still out
  bool finished = false;            // done with, but for the notice
  bool counts_in_budget = false;    // until it is answered
  int64_t budget_bytes = 0;         // what its response holds of the budget

 private:
  // What was marked before. acq_rel: the second marker sees all that the first one wrote.
  uint8_t Mark(uint8_t mark) { return marks_.fetch_or(mark, std::memory_order_acq_rel); }

  ResponseSink* sink_ = nullptr;
  uint32_t slot_ = 0;
  uint32_t generation_ = 0;
  uint32_t frame_bytes_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_RUN_H_
