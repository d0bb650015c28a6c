// A processor's answers to its control mailbox: other options, and the list of its
// connections, a few in every turn so that traffic goes on. And how it drains.
#include <utility>

#include "engine/network/processor/processor.h"

namespace gyre {

namespace {

const char* StateOf(const ConnectionSlot& slot) {
  const Connection& connection = slot.connection;
  if (connection.closing()) return "closing";
  if (connection.peer_finished()) return "half-closed";
  if (connection.throttled()) return "throttled";
  if (connection.send_busy()) return "sending";
  if (connection.waiting_for_memory()) return "waiting for memory";
  if (connection.parked()) return "waiting for a handler";
  if (connection.in_flight() > 0) return "in flight";
  return connection.mid_frame() ? "receiving" : "idle";
}

ConnectionInfo InfoOf(const ConnectionSlot& slot, int processor, int64_t now_ns) {
  const Session& session = slot.session;
  ConnectionInfo info;
  info.peer = session.peer.ToString();
  info.listener = session.listener->bound.listener_name;
  info.principal = std::string(session.principal());
  info.client_id = std::string(session.client_id.view());
  info.client_software_name = std::string(session.software_name());
  info.client_software_version = std::string(session.software_version());
  info.state = StateOf(slot);
  info.processor = processor;
  info.in_flight = slot.connection.in_flight();
  info.age_ms = (now_ns - slot.traffic.opened_ns) / 1'000'000;
  info.idle_ms = (now_ns - slot.last_progress_ns) / 1'000'000;
  info.requests = slot.traffic.requests;
  info.received_bytes = slot.traffic.received_bytes;
  info.sent_bytes = slot.traffic.sent_bytes;
  return info;
}

}  // namespace

void Processor::EnqueueOptions(const ConnectionOptions& options) {
  control_.PostOptions(options);
  seat_.WakeIfParked();
}

void Processor::EnqueueList(std::shared_ptr<ConnectionList> list) {
  control_.PostList(std::move(list));
  seat_.WakeIfParked();
}

bool Processor::HandleControl() {
  if (control_.empty() && lists_.empty()) return false;
  if (!control_.empty()) {
    ControlMailbox::Posted posted = control_.Take();
    if (posted.options.has_value()) SetOptions(*posted.options);
    for (std::shared_ptr<ConnectionList>& list : posted.lists) {
      lists_.push_back(ListUnderWay{std::move(list), 0});
    }
  }
  if (!lists_.empty()) ContinueList();
  return true;
}

void Processor::SetOptions(const ConnectionOptions& options) {
  options_.connection = options;
  const int64_t ahead_bytes = options.receive_ahead_bytes;
  const bool new_limits = limits_.complete_ahead_bytes != ahead_bytes ||
                          limits_.max_in_flight != options.max_in_flight_requests_per_connection ||
                          limits_.max_in_flight_bytes != options.max_in_flight_bytes_per_connection;
  limits_.max_in_flight = options.max_in_flight_requests_per_connection;
  limits_.max_in_flight_bytes = options.max_in_flight_bytes_per_connection;
  limits_.complete_ahead_bytes = ahead_bytes;
  limits_.receive_ahead_bytes = response_budget_.HasRoomAhead() ? ahead_bytes : 0;
  table_.ForEach([this, ahead_bytes, new_limits](Slot& slot) {
    owner_.Assert();
    if (slot.connection.shutdown_done() || slot.connection.lingering()) return;
    // The entries lie where the old time-outs put them.
    ArmDeadline(slot, slot.last_progress_ns + IdleNs());
    if (!new_limits) return;
    slot.connection.OnLimitsChanged();
    // One that is armed goes by the limit of then, and would take all that a socket has.
    const bool is_armed = slot.connection.receiving() == Connection::Receiving::kProvided;
    if (ahead_bytes == 0 && is_armed) CancelReceive(slot);
    Settle(slot);
  });
}

void Processor::ContinueList() {
  ListUnderWay& under_way = lists_.front();
  ConnectionList& list = *under_way.list;
  uint32_t budget = kListedPerTurn;
  while (under_way.next_slot < table_.made() && budget-- > 0 && !list.full()) {
    const Slot& slot = table_.At(under_way.next_slot++);
    if (slot.open && !slot.connection.closed()) list.Add(InfoOf(slot, index(), now_ns_));
  }
  if (under_way.next_slot < table_.made() && !list.full()) return;
  list.OnProcessorDone();
  lists_.erase(lists_.begin());
}

void Processor::DropLists() {
  for (const std::shared_ptr<ConnectionList>& list : control_.Take().lists) {
    list->OnProcessorDone();
  }
  for (const ListUnderWay& under_way : lists_) under_way.list->OnProcessorDone();
  lists_.clear();
}

// --- draining ----------------------------------------------------------------------------

void Processor::BeginDrainNow() {
  draining_ = true;
  drain_grace_ends_ns_ = now_ns_ + kDrainGraceNs;
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    if (slot.traffic.requests > 0) Drain(slot);
  });
}

void Processor::Drain(Slot& slot) {
  slot.connection.BeginDrain();
  ReportThrottled(slot);
  Settle(slot);
}

void Processor::EndDrainGrace() {
  drain_grace_ends_ns_ = kNever;
  stalled_check_ns_ = now_ns_;
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    Drain(slot);
  });
}

void Processor::EndStalledFrames() {
  stalled_check_ns_ = table_.size() > 0 ? now_ns_ + kDrainStallCheckNs : kNever;
  table_.ForEach([this](Slot& slot) {
    owner_.Assert();
    if (!AwaitsRestOfFrame(slot) || slot.connection.starved()) return;
    if (now_ns_ - slot.last_progress_ns < kDrainStallNs) return;
    metrics_.connections_expired.Increment();
    slot.connection.CloseAfterFlush();
    Settle(slot);
  });
}

}  // namespace gyre
