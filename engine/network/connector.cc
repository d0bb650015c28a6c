#include "engine/network/connector.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "glog/logging.h"

namespace gyre {
namespace {

using uring::Completion;
using uring::OpKind;
using uring::Token;

constexpr size_t kCompletionsPerTurn = 512;
constexpr size_t kMaxParts = 64;
// A frame's memory is kept for the next one up to this size.
constexpr size_t kKeptFrameBytes = 4 << 20;

absl::Status PeerError(absl::StatusCode code, const SocketAddress& peer, absl::string_view what) {
  return absl::Status(code, absl::StrCat(peer.ToString(), ": ", what));
}

}  // namespace

Connector::Connector(uring::Ring& ring, const Clock& clock, const FrameDecoder& decoder,
                     ConnectorEvents& events, const ConnectorOptions& options)
    : ring_(ring),
      clock_(clock),
      decoder_(decoder),
      events_(events),
      options_(options),
      buffers_(
          new char[size_t{options.receive_buffer_bytes} * size_t{options.receive_buffer_count}]),
      completions_(kCompletionsPerTurn) {}

Connector::~Connector() {
  if (!attached_) return;
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = *slots_[index];
    if (slot.state == State::kConnecting || slot.state == State::kOpen) BeginClose(slot, index);
  }
  // Shut down and cancelled, every operation ends by itself.
  while (open_count_ > 0) RunOnce(-1);
}

absl::Status Connector::Attach() {
  GYRE_RETURN_IF_ERROR(ring_.Attach());
  attached_ = true;
  return ring_.ProvideBuffers(buffers_.get(), options_.receive_buffer_bytes,
                              options_.receive_buffer_count);
}

Connector::Slot* Connector::Find(ConnectionHandle connection) {
  return const_cast<Slot*>(std::as_const(*this).Find(connection));
}

const Connector::Slot* Connector::Find(ConnectionHandle connection) const {
  if (connection.slot >= slots_.size()) return nullptr;
  const Slot& slot = *slots_[connection.slot];
  const bool is_open = slot.state == State::kConnecting || slot.state == State::kOpen;
  return is_open && slot.generation == connection.generation ? &slot : nullptr;
}

Token Connector::TokenFor(OpKind kind, const Slot& slot, uint32_t index) const {
  return Token{kind, index, slot.generation};
}

absl::StatusOr<ConnectionHandle> Connector::Connect(const SocketAddress& peer) {
  // Not a method of the ring: the simulated network brings its own peers.
  const int fd = socket(peer.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return PeerError(absl::StatusCode::kResourceExhausted, peer,
                     absl::StrCat("socket: ", std::strerror(errno)));
  }
  const int on = 1;
  ring_.SetSocketOption(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back(std::make_unique<Slot>());
  }
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = *slots_[index];
  ++slot.generation;
  ++open_count_;
  slot.fd = fd;
  slot.state = State::kConnecting;
  slot.reset = false;
  slot.peer = peer;
  ++slot.in_flight_count;
  ring_.Connect(TokenFor(OpKind::kConnect, slot, index), fd, slot.peer.get(), slot.peer.size);
  const ConnectionHandle connection = {index, slot.generation};
  connect_deadlines_.push_back({connection, clock_.NowNs() + options_.connect_timeout_ns});
  return connection;
}

// --- sending ------------------------------------------------------------------------

bool Connector::Send(ConnectionHandle connection, std::string bytes) {
  Slot* const slot = Find(connection);
  if (slot == nullptr) return false;
  if (bytes.empty()) return true;
  slot->unsent_bytes += bytes.size();
  slot->queue.push_back(std::move(bytes));
  if (slot->state == State::kOpen && !slot->sending) StartSend(*slot, connection.slot);
  return true;
}

size_t Connector::unsent_bytes(ConnectionHandle connection) const {
  const Slot* const slot = Find(connection);
  return slot == nullptr ? 0 : slot->unsent_bytes;
}

void Connector::StartSend(Slot& slot, uint32_t index) {
  if (slot.batch.empty()) {
    std::swap(slot.batch, slot.queue);
    slot.batch_sent_bytes = 0;
  }
  slot.parts.clear();
  size_t skip_bytes = slot.batch_sent_bytes;
  for (std::string& bytes : slot.batch) {
    if (skip_bytes >= bytes.size()) {
      skip_bytes -= bytes.size();
      continue;
    }
    if (slot.parts.size() == kMaxParts) break;
    slot.parts.push_back({bytes.data() + skip_bytes, bytes.size() - skip_bytes});
    skip_bytes = 0;
  }
  slot.message = {};
  slot.message.msg_iov = slot.parts.data();
  slot.message.msg_iovlen = slot.parts.size();
  slot.sending = true;
  ++slot.in_flight_count;
  ring_.SendMessage(TokenFor(OpKind::kSend, slot, index), slot.fd, &slot.message,
                    /*more_follows=*/false);
}

void Connector::OnSend(Slot& slot, uint32_t index, IoResult result) {
  slot.sending = false;
  if (slot.state != State::kOpen) return;
  if (!result.ok()) {
    return Fail(index, PeerError(absl::StatusCode::kUnavailable, slot.peer,
                                 absl::StrCat("send: ", std::strerror(result.error()))));
  }
  slot.batch_sent_bytes += static_cast<size_t>(result.bytes());
  slot.unsent_bytes -= static_cast<size_t>(result.bytes());
  size_t batch_bytes = 0;
  for (const std::string& bytes : slot.batch) batch_bytes += bytes.size();
  if (slot.batch_sent_bytes == batch_bytes) slot.batch.clear();
  if (slot.unsent_bytes > 0) StartSend(slot, index);
}

// --- receiving ----------------------------------------------------------------------

void Connector::ArmReceive(Slot& slot, uint32_t index) {
  ++slot.in_flight_count;
  ring_.RecvProvided(TokenFor(OpKind::kRecv, slot, index), slot.fd);
}

void Connector::OnReceive(Slot& slot, uint32_t index, const Completion& completion) {
  const IoResult result = completion.result;
  if (slot.state == State::kOpen && result.ok() && result.bytes() > 0) {
    const char* const from =
        buffers_.get() + size_t{completion.buffer_id} * options_.receive_buffer_bytes;
    Deliver(index, absl::string_view(from, static_cast<size_t>(result.bytes())));
  }
  if (completion.buffer_id != uring::kNoBuffer) ring_.ReturnBuffer(completion.buffer_id);
  if (slot.state != State::kOpen) return;
  if (result.ok() && result.bytes() == 0) {
    return Fail(index, PeerError(absl::StatusCode::kUnavailable, slot.peer,
                                 slot.partial.empty() ? "closed by the peer"
                                                      : "closed by the peer within a frame"));
  }
  // Without a free buffer the receive ended; this turn gives all of them back.
  if (!result.ok() && result.error() != ENOBUFS) {
    return Fail(index, PeerError(absl::StatusCode::kUnavailable, slot.peer,
                                 absl::StrCat("receive: ", std::strerror(result.error()))));
  }
  if (!completion.more) ArmReceive(slot, index);
}

bool Connector::Deliver(uint32_t index, absl::string_view bytes) {
  Slot& slot = *slots_[index];
  const ConnectionHandle connection = {index, slot.generation};
  while (!bytes.empty()) {
    if (!slot.partial.empty()) {
      if (!Assemble(index, &bytes)) return false;
      continue;
    }
    const FrameDecoder::Verdict verdict = decoder_.Inspect(bytes, 0);
    const uint64_t whole_bytes =
        verdict.skip_bytes + static_cast<uint64_t>(std::max<int64_t>(verdict.payload_bytes, 0));
    if (verdict.kind == FrameDecoder::Kind::kFrame && whole_bytes <= bytes.size()) {
      events_.OnFrame(connection,
                      bytes.substr(verdict.skip_bytes, static_cast<size_t>(verdict.payload_bytes)));
      if (Find(connection) == nullptr) return false;
      bytes.remove_prefix(static_cast<size_t>(whole_bytes));
      continue;
    }
    slot.frame_bytes = 0;
    slot.partial.push_back(bytes[0]);
    bytes.remove_prefix(1);
    if (!Assemble(index, &bytes)) return false;
  }
  return true;
}

bool Connector::Assemble(uint32_t index, absl::string_view* bytes) {
  Slot& slot = *slots_[index];
  const ConnectionHandle connection = {index, slot.generation};
  // Byte by byte until the decoder knows: it may see none beyond its frame's first ones.
  FrameDecoder::Verdict verdict = decoder_.Inspect(slot.partial, 0);
  while (slot.frame_bytes == 0) {
    if (verdict.kind == FrameDecoder::Kind::kInvalid ||
        (verdict.kind == FrameDecoder::Kind::kNeedMore &&
         slot.partial.size() >= decoder_.max_undecided_bytes())) {
      Fail(index, PeerError(absl::StatusCode::kDataLoss, slot.peer,
                            absl::StrCat("what came is no frame: ",
                                         verdict.reason != nullptr ? verdict.reason : "endless")));
      return false;
    }
    if (verdict.kind == FrameDecoder::Kind::kFrame) {
      slot.frame_bytes = verdict.skip_bytes + static_cast<size_t>(verdict.payload_bytes);
      break;
    }
    if (bytes->empty()) return true;
    slot.partial.push_back(bytes->front());
    bytes->remove_prefix(1);
    verdict = decoder_.Inspect(slot.partial, slot.partial.size() - 1);
  }
  const size_t taken = std::min(slot.frame_bytes - slot.partial.size(), bytes->size());
  slot.partial.append(bytes->data(), taken);
  bytes->remove_prefix(taken);
  if (slot.partial.size() < slot.frame_bytes) return true;

  // Out of the slot while it is shown: the event may close the connection.
  std::string frame = std::exchange(slot.partial, std::string());
  slot.frame_bytes = 0;
  events_.OnFrame(connection, absl::string_view(frame).substr(verdict.skip_bytes));
  if (Find(connection) == nullptr) return false;
  if (frame.capacity() <= kKeptFrameBytes) {
    frame.clear();
    slot.partial = std::move(frame);
  }
  return true;
}

// --- connecting and closing ---------------------------------------------------------

void Connector::OnConnect(Slot& slot, uint32_t index, IoResult result) {
  if (slot.state != State::kConnecting) return;
  if (!result.ok()) {
    return Fail(index, PeerError(absl::StatusCode::kUnavailable, slot.peer,
                                 absl::StrCat("connect: ", std::strerror(result.error()))));
  }
  slot.state = State::kOpen;
  ArmReceive(slot, index);
  if (slot.unsent_bytes > 0) StartSend(slot, index);
  events_.OnConnected({index, slot.generation});
}

void Connector::Fail(uint32_t index, const absl::Status& why) {
  Slot& slot = *slots_[index];
  const ConnectionHandle connection = {index, slot.generation};
  BeginClose(slot, index);
  events_.OnClosed(connection, why);
}

void Connector::Close(ConnectionHandle connection, bool reset) {
  Slot* const slot = Find(connection);
  if (slot == nullptr) return;
  slot->reset = reset;
  BeginClose(*slot, connection.slot);
}

void Connector::BeginClose(Slot& slot, uint32_t index) {
  if (slot.state == State::kConnecting) {
    ring_.Cancel(Token{OpKind::kCancel, index, slot.generation},
                 TokenFor(OpKind::kConnect, slot, index));
    ++slot.in_flight_count;
  } else if (slot.reset) {
    // A shutdown would say goodbye first.
    for (const OpKind kind : {OpKind::kRecv, OpKind::kSend}) {
      ring_.Cancel(Token{OpKind::kCancel, index, slot.generation}, TokenFor(kind, slot, index));
      ++slot.in_flight_count;
    }
  } else {
    ring_.Shutdown(slot.fd, /*write_side_only=*/false);
  }
  slot.state = State::kClosing;
  FreeIfQuiet(slot, index);
}

void Connector::FreeIfQuiet(Slot& slot, uint32_t index) {
  if (slot.state != State::kClosing || slot.in_flight_count > 0) return;
  if (slot.reset) ring_.SetResetOnClose(slot.fd);
  ring_.Close(slot.fd);
  slot.fd = -1;
  slot.state = State::kFree;
  slot.sending = false;
  slot.partial = std::string();
  slot.frame_bytes = 0;
  slot.queue.clear();
  slot.batch.clear();
  slot.batch_sent_bytes = 0;
  slot.unsent_bytes = 0;
  free_slots_.push_back(index);
  --open_count_;
}

void Connector::ExpireConnects(int64_t now_ns) {
  while (!connect_deadlines_.empty()) {
    const Deadline deadline = connect_deadlines_.front();
    const Slot* const slot = Find(deadline.connection);
    const bool waiting = slot != nullptr && slot->state == State::kConnecting;
    if (waiting && deadline.at_ns > now_ns) return;
    connect_deadlines_.pop_front();
    if (waiting) {
      Fail(deadline.connection.slot,
           PeerError(absl::StatusCode::kDeadlineExceeded, slot->peer,
                     absl::StrCat("connect: no answer within ",
                                  options_.connect_timeout_ns / 1'000'000, " ms")));
    }
  }
}

void Connector::Dispatch(const Completion& completion) {
  const uint32_t index = completion.token.slot;
  DCHECK_LT(index, slots_.size());
  Slot& slot = *slots_[index];
  // A slot is not used again before the kernel holds nothing of it.
  DCHECK_EQ(slot.generation, completion.token.generation);
  if (!completion.more) --slot.in_flight_count;
  switch (completion.token.kind) {
    case OpKind::kConnect:
      OnConnect(slot, index, completion.result);
      break;
    case OpKind::kRecv:
      OnReceive(slot, index, completion);
      break;
    case OpKind::kSend:
      OnSend(slot, index, completion.result);
      break;
    case OpKind::kCancel:
    case OpKind::kInternal:
    case OpKind::kWake:
    case OpKind::kAccept:
    case OpKind::kSendZeroCopy:
    case OpKind::kPoll:
    case OpKind::kSplice:
    case OpKind::kFile:
    case OpKind::kTimer:
      break;
  }
  FreeIfQuiet(slot, index);
}

size_t Connector::RunOnce(int64_t wait_ns) {
  if (!connect_deadlines_.empty()) {
    const int64_t now_ns = clock_.NowNs();
    ExpireConnects(now_ns);
    if (!connect_deadlines_.empty() && wait_ns != 0) {
      const int64_t left_ns = std::max<int64_t>(connect_deadlines_.front().at_ns - now_ns, 1);
      wait_ns = wait_ns < 0 ? left_ns : std::min(wait_ns, left_ns);
    }
  }
  const size_t count = ring_.SubmitAndReap(absl::MakeSpan(completions_), wait_ns);
  for (size_t i = 0; i < count; ++i) Dispatch(completions_[i]);
  return count;
}

}  // namespace gyre
