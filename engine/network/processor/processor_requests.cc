// A processor's frames and requests: from received bytes to runs in the request
// channel, and from responses to what leaves.
#include <algorithm>
#include <utility>

#include "engine/network/processor/processor.h"
#include "glog/logging.h"

namespace gyre {

// --- frames and requests -----------------------------------------------------------

bool Processor::MayTakeMore(Slot& slot) {
  if (slot.dispatch_turn != turn_) {
    slot.dispatch_turn = turn_;
    slot.dispatch_bytes = 0;
  }
  int64_t quantum_bytes = options_.connection.dispatch_quantum_bytes;
  if (options_.connection.dispatch == Dispatch::kInline) {
    quantum_bytes = std::min(quantum_bytes, ConnectionOptions::kInlineQuantumBytes);
  }
  if (slot.dispatch_bytes < quantum_bytes) return true;
  slot.connection.SetYielded(true);
  yielded_.PushBack(&slot);
  metrics_.requests_yielded.Increment();
  return false;
}

void Processor::ServeYielded() {
  IntrusiveList<Slot, YieldTag> slots;
  slots.TakeAll(&yielded_);
  while (Slot* slot = slots.PopFront()) {
    slot->connection.SetYielded(false);
    Settle(*slot);
  }
}

ConnectionRequest* Processor::TakeFrame(Slot& slot) {
  SlotMemory memory(*this, slot);
  NetworkReceive::Frame frame;
  const char* reason = nullptr;
  NetworkReceive::Status status = slot.receive.Next(slot.decoder(), memory, &frame, &reason);
  if (slot.frame_late && status == NetworkReceive::Status::kNeedMore &&
      slot.receive.TakeUnfinished(&frame, memory)) {
    status = NetworkReceive::Status::kFrame;
  }
  if (status == NetworkReceive::Status::kNoMemory) WaitForMemory(slot, memory);
  if (status == NetworkReceive::Status::kInvalid) {
    metrics_.frames_invalid.Increment();
    LogClose(slot, reason);
    slot.connection.CloseAfterFlush();
    slot.receive.Clear(memory);
  }
  if (status != NetworkReceive::Status::kFrame) return nullptr;
  const int64_t charged_bytes = charges_memory_ ? frame.charged_bytes : 0;
  ConnectionRequest* request = MakeRequest(slot, std::move(frame.payload), charged_bytes);
  slot.dispatch_bytes += std::max(
      {int64_t{request->frame_bytes()}, ConnectionOptions::kSmallRequestBytes, inline_request_ns_});
  ++slot.traffic.requests;
  ++thread_.requests;
  metrics_.frames_received.Increment();
  return request;
}

ConnectionRequest* Processor::MakeRequest(Slot& slot, Buffer frame, int64_t charged_bytes) {
  ConnectionRequest* request = requests_.Acquire();
  request->Fill(&channel_, &seat_, &slot.session, slot.index, slot.generation, std::move(frame),
                charged_bytes, now_ns_);
  if (channel_.lane_count() > 1) {
    const int lane = handler_.LaneOf(*request);
    if (lane > 0 && lane < channel_.lane_count()) request->lane = static_cast<uint8_t>(lane);
  }
  // One at a time is alone, and stays so when the limit is raised meanwhile.
  request->alone = limits_.max_in_flight == 1 || handler_.RunsAlone(*request);
  if (limits_.max_in_flight > 1) {
    request->in_flight_bytes = std::max(request->in_flight_bytes, slot.answer_bytes);
  }
  return request;
}

ConnectionRequest* Processor::TakeRun(Slot& slot, RequestRun* run, int64_t* bytes) {
  const auto room = static_cast<uint32_t>(slot.connection.run_room());
  ConnectionRequest* first = nullptr;
  ConnectionRequest* last = nullptr;
  while (run->count < room && (first == nullptr || slot.connection.has_byte_room(*bytes))) {
    ConnectionRequest* request = std::exchange(slot.next_request, nullptr);
    if (request == nullptr && MayTakeMore(slot)) request = TakeFrame(slot);
    if (request == nullptr) break;
    const bool must_wait = request->alone && (first != nullptr || slot.connection.in_flight() > 0);
    if (must_wait || (first != nullptr && request->lane != first->lane)) {
      slot.next_request = request;
      slot.connection.SetNextAlone(request->alone);
      break;
    }
    slot.connection.SetNextAlone(false);
    if (first == nullptr) {
      first = request;
    } else {
      last->next_in_run = request;
    }
    request->first_in_run = first;
    last = request;
    ++run->count;
    *bytes += request->in_flight_bytes;
    if (request->alone) break;
  }
  return first;
}

void Processor::DispatchFrames(Slot& slot) {
  if (!MayAskForResponse(slot)) return;
  RequestRun run;
  int64_t bytes = 0;
  ConnectionRequest* const first = TakeRun(slot, &run, &bytes);
  SpendGranted(slot);
  ReportInput(slot, false);
  if (!slot.receive.has_unseen() && slot.next_request == nullptr) {
    slot.connection.OnInputExhausted();
  }
  if (first == nullptr) return;
  CountRequests(slot, first);
  for (ConnectionRequest* request = first; request != nullptr; request = request->next_in_run) {
    slot.output.Push(request);
  }
  first->run.first = first;
  first->run.sink = &seat_;
  first->run.count = run.count;
  first->run.lane = first->lane;
  // One that is alone says with its response that it was started.
  first->run.wants_started_notice = !first->alone;
  slot.connection.OnRunDispatched(static_cast<int32_t>(run.count), bytes,
                                  first->run.wants_started_notice, first->alone);
  // The first of a connection that had a little time left.
  if (draining_) slot.connection.BeginDrain();
  SendRun(slot, first);
}

void Processor::DropNextRequest(Slot& slot) {
  ConnectionRequest* const request = std::exchange(slot.next_request, nullptr);
  if (request == nullptr) return;
  request->ReleaseFrame();
  ReleaseRequest(request);
}

void Processor::SendRun(Slot& slot, ConnectionRequest* first) {
  if (options_.connection.dispatch == Dispatch::kInline) {
    bool all_inline = true;
    for (ConnectionRequest* request = first; request != nullptr; request = request->next_in_run) {
      all_inline = all_inline && handler_.RunsInline(*request);
    }
    if (all_inline) return StartInline(slot, first);
  }
  // Behind those that wait already: first come, first served.
  first->run_notice_pending = first->run.wants_started_notice;
  if (parked_runs_[first->lane].empty() && TryHandOver(first)) return;
  metrics_.requests_parked.Increment();
  slot.parked_run = first;
  slot.connection.SetParked(true);
  parked_runs_[first->lane].PushBack(&first->run);
  channel_.WaitForRoom(&seat_, first->lane);
  // Room that came before the FIFO knew of this processor was told to nobody.
  OnRoom(first->lane);
}

bool Processor::TryHandOver(ConnectionRequest* first) {
  if (!channel_.TrySend(&first->run)) return false;
  if (++untold_runs_ >= kMaxUntoldRuns) TellHandlers();
  return true;
}

void Processor::TellHandlers() {
  if (untold_runs_ > 0) channel_.WakeHandlers(std::exchange(untold_runs_, 0));
}

ConnectionRequest* Processor::Unpark(Slot& slot) {
  ConnectionRequest* const first = std::exchange(slot.parked_run, nullptr);
  static_cast<IntrusiveListNode<ParkedTag>&>(first->run).Unlink();
  slot.connection.SetParked(false);
  return first;
}

void Processor::OnRoom(int lane) {
  while (RequestRun* run = parked_runs_[lane].PopFront()) {
    // Once handed over, the run is a handler's.
    Slot& slot = table_.At(run->first->slot());
    if (!TryHandOver(run->first)) {
      channel_.WaitForRoom(&seat_, lane);
      if (!TryHandOver(run->first)) {
        parked_runs_[lane].PushFront(run);
        return;
      }
    }
    slot.parked_run = nullptr;
    slot.connection.SetParked(false);
  }
  channel_.PassRoomOn(lane);
}

void Processor::StartInline(Slot& slot, ConnectionRequest* first) {
  ConnectionRequest* request = first;
  const int64_t begin_ns = channel_.clock().NowNs();
  int64_t started_ns = begin_ns;
  int64_t count = 0;
  while (request != nullptr) {
    ConnectionRequest* const next = request->next_in_run;
    request->times().dequeued_ns = started_ns;
    handler_.Start(RequestPtr(request));
    started_ns = channel_.clock().NowNs();
    ++count;
    if (request->MarkStarted(started_ns)) {
      // The start of a throttling is in the mailbox, and the response stays behind it.
      if (request->throttled()) {
        seat_.EnqueueResponse(request);
      } else {
        OnResponse(request, started_ns);
      }
    }
    request = next;
  }
  // One that took long, perhaps for once, counts as a whole share and not for more.
  const int64_t each_ns =
      std::min((started_ns - begin_ns) / count, ConnectionOptions::kInlineQuantumBytes);
  inline_request_ns_ += (each_ns - inline_request_ns_) / 4;
  slot.connection.OnRunStarted();
}

void Processor::OnResponse(ConnectionRequest* request, int64_t taken_ns) {
  request->times().response_dequeued_ns = taken_ns;
  request->ReleaseFrame();
  Slot& slot = table_.At(request->slot());
  if (auto software = request->TakeClientSoftware()) [[unlikely]] {
    slot.session.software = std::move(software);
  }
  DCHECK(slot.open);
  DCHECK_EQ(slot.generation, request->generation());
  if (!slot.transport->passes_through()) slot.transport->Wrap(&request->response());
  slot.last_progress_ns = now_ns_;
  CountResponse(slot, request);
  if (limits_.max_in_flight > 1) {
    const int64_t bytes = request->response().memory_bytes();
    slot.connection.OnInFlightBytes(bytes - request->in_flight_bytes);
    request->in_flight_bytes = bytes;
    slot.answer_bytes = bytes;
  }
  if (request->tells_run_started) OnRunStarted(request->first_in_run);
  const int32_t ready = slot.output.MarkReady(request);
  if (ready == 0) return;
  if (slot.connection.ready() == 0) {
    slot.send_pace.Begin(now_ns_);
    slot.paced_sent_bytes = slot.traffic.sent_bytes;
  }
  slot.connection.OnResponsesReady(ready);
}

void Processor::OnRunStarted(ConnectionRequest* first) {
  first->run_notice_pending = false;
  table_.At(first->slot()).connection.OnRunStarted();
  if (first->finished) ReleaseRequest(first);
}

void Processor::OnFrontSent(Slot& slot) {
  owner_.Assert();
  FinishFront(slot, true);
}

void Processor::OnCloseResponse(Slot& slot) {
  owner_.Assert();
  const char* reason = slot.output.front()->close_reason();
  if (reason != nullptr) LogClose(slot, reason);
  FinishFront(slot, true);
  slot.connection.Abort();
}

void Processor::OnSendFailed(Slot& slot, const char* reason) {
  owner_.Assert();
  if (reason != nullptr) LogClose(slot, reason);
  slot.connection.Abort();
}

void Processor::OnQuantumUsed(Slot& slot) {
  owner_.Assert();
  turns_.PushBack(&slot);
}

void Processor::FinishFront(Slot& slot, bool sent) {
  ConnectionRequest* request = slot.output.Pop();
  // Most clients never change it, and those that have none leave its memory alone.
  if (!request->client_id.view().empty()) slot.session.client_id = request->client_id;
  request->times().sent_ns = sent ? now_ns_ : request->times().response_dequeued_ns;
  const RequestSpans spans = RequestSpans::Of(request->times());
  request_metrics_.Record(request->api, request->api_version, spans, request->frame_bytes());
  if (const int64_t slow_ms = options_.connection.slow_request_log_ms;
      slow_ms >= 0 && spans.total_ns >= slow_ms * 1'000'000) [[unlikely]] {
    slow_log_.Log(request_metrics_.NameOf(request->api), *request, spans, slot.session, now_ns_);
  }
  if (request->closes_after()) slot.connection.CloseAfterFlush();
  slot.connection.OnResponseSent(request->in_flight_bytes);
  // A frame that came meanwhile had to wait: its time begins now.
  slot.frame_started_ns = now_ns_;
  slot.receive_pace.Begin(now_ns_);
  slot.last_progress_ns = now_ns_;
  ReleaseRequest(request);
}

void Processor::DropResponses(Slot& slot) {
  while (slot.output.front() != nullptr) FinishFront(slot, false);
}

void Processor::ReleaseRequest(ConnectionRequest* request) {
  if (request->budget_bytes != 0) HoldAnswer(table_.At(request->slot()), request, 0);
  request->ReleaseResponse();
  // The run's node is still out: the notice brings the object back.
  request->finished = true;
  if (!request->run_notice_pending) requests_.Release(request);
}

}  // namespace gyre
