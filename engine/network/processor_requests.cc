// A processor's frames and requests: from received bytes to runs in the request
// channel, and from responses to what leaves.
#include <utility>

#include "engine/network/processor.h"
#include "glog/logging.h"

namespace gyre {

// --- frames and requests -----------------------------------------------------------

void Processor::DispatchFrames(Slot& slot) {
  SlotMemory memory(*this, slot);
  const int32_t room = slot.connection.run_room();
  ConnectionRequest* first = nullptr;
  ConnectionRequest* last = nullptr;
  int32_t count = 0;
  while (count < room) {
    NetworkReceive::Frame frame;
    const char* reason = nullptr;
    NetworkReceive::Status status = slot.receive.Next(*slot.decoder, memory, &frame, &reason);
    if (slot.frame_late && status == NetworkReceive::Status::kNeedMore &&
        slot.receive.TakeUnfinished(&frame)) {
      status = NetworkReceive::Status::kFrame;
    }
    if (status == NetworkReceive::Status::kFrame) {
      ConnectionRequest* request = AcquireRequest();
      request->Fill(&channel_, this, &slot.session, slot.index, slot.generation,
                    std::move(frame.payload), charges_memory_ ? frame.charged_bytes : 0, now_ns_);
      if (charges_memory_ && frame.charged_bytes > 0) channel_.OnRequestCharged();
      slot.output.Push(request);
      if (last != nullptr) {
        last->next_in_run = request;
      } else {
        first = request;
      }
      last = request;
      ++count;
      ++slot.traffic.requests;
      metrics_.frames_received.Increment();
      continue;
    }
    if (status == NetworkReceive::Status::kNoMemory) {
      WaitForMemory(slot, memory.refused_bytes);
    } else if (status == NetworkReceive::Status::kInvalid) {
      metrics_.frames_invalid.Increment();
      LogClose(slot, reason);
      slot.connection.CloseAfterFlush();
      slot.receive.Clear(memory);
    }
    break;
  }
  SpendGranted(slot);
  ReportInput(slot, false);
  if (!slot.receive.has_unseen()) slot.connection.OnInputExhausted();
  if (count > 0) {
    first->run.first = first;
    first->run.sink = this;
    first->run.count = static_cast<uint32_t>(count);
    first->run.wants_started_notice = limits_.max_in_flight > 1;
    slot.connection.OnRunDispatched(count, first->run.wants_started_notice);
    SendRun(slot, first);
  }
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
  if (parked_runs_.empty() && channel_.TrySend(&first->run)) return;
  metrics_.requests_parked.Increment();
  slot.parked_run = first;
  slot.connection.SetParked(true);
  parked_runs_.PushBack(&slot);
  channel_.WaitForRoom(this);
  // Room that came before the FIFO knew of this processor was told to nobody.
  OnRoom();
}

void Processor::OnRoom() {
  while (Slot* slot = parked_runs_.front()) {
    if (!channel_.TrySend(&slot->parked_run->run)) {
      channel_.WaitForRoom(this);
      if (!channel_.TrySend(&slot->parked_run->run)) return;
    }
    static_cast<IntrusiveListNode<ParkedTag>*>(slot)->Unlink();
    slot->parked_run = nullptr;
    slot->connection.SetParked(false);
  }
  channel_.PassRoomOn();
}

void Processor::StartInline(Slot& slot, ConnectionRequest* first) {
  ConnectionRequest* request = first;
  while (request != nullptr) {
    ConnectionRequest* const next = request->next_in_run;
    request->times().dequeued_ns = now_ns_;
    handler_.Start(request);
    if (request->MarkStarted(channel_.clock().NowNs())) {
      // The start of a throttling is in the mailbox, and the response stays behind it.
      if (request->throttled()) {
        EnqueueResponse(request);
      } else {
        OnResponse(request);
      }
    }
    request = next;
  }
  slot.connection.OnRunStarted();
}

void Processor::OnResponse(ConnectionRequest* request) {
  request->times().response_dequeued_ns = now_ns_;
  request->ReleaseFrame();
  Slot& slot = table_.At(request->slot());
  if (request->client_software() != nullptr) [[unlikely]] {
    slot.session.SetSoftware(*request->client_software());
  }
  DCHECK(slot.open);
  DCHECK_EQ(slot.generation, request->generation());
  if (!slot.transport->passes_through()) slot.transport->Wrap(&request->response());
  slot.last_progress_ns = now_ns_;
  const int32_t ready = slot.output.MarkReady(request);
  if (ready == 0) return;
  slot.connection.OnResponsesReady(ready);
}

void Processor::OnRunStarted(RequestRun* run) {
  ConnectionRequest* request = run->first;
  request->run_notice_pending = false;
  Slot& slot = table_.At(request->slot());
  slot.connection.OnRunStarted();
  if (request->finished) ReleaseRequest(request);
  Settle(slot);
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
  slot.session.client_id = request->client_id;
  request->times().sent_ns = sent ? now_ns_ : request->times().response_dequeued_ns;
  request_metrics_.Record(request->api, request->times(), request->frame_bytes());
  if (request->closes_after()) slot.connection.CloseAfterFlush();
  slot.connection.OnResponseSent();
  // A frame that came meanwhile had to wait: its time begins now.
  slot.frame_started_ns = now_ns_;
  slot.last_progress_ns = now_ns_;
  ReleaseRequest(request);
}

void Processor::DropResponses(Slot& slot) {
  while (slot.output.front() != nullptr) FinishFront(slot, false);
}

ConnectionRequest* Processor::AcquireRequest() {
  if (free_requests_.empty()) {
    requests_.push_back(std::make_unique<ConnectionRequest>());
    free_requests_.reserve(requests_.capacity());
    return requests_.back().get();
  }
  ConnectionRequest* request = free_requests_.back();
  free_requests_.pop_back();
  return request;
}

void Processor::ReleaseRequest(ConnectionRequest* request) {
  request->ReleaseResponse();
  // The run's node is still out: the notice brings the object back.
  request->finished = true;
  if (!request->run_notice_pending) free_requests_.push_back(request);
}

}  // namespace gyre
