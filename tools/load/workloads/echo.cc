#include "tools/load/workloads/echo.h"

#include <algorithm>
#include <utility>

#include "engine/base/crc32c.h"
#include "engine/base/endian.h"

namespace gyre::load {
namespace {

// At once, so that a listen queue is not overrun.
constexpr size_t kConnectsAtOnce = 16;
constexpr int64_t kTimeoutCheckNs = 500'000'000;

}  // namespace

EchoLoad::EchoLoad(Part& part, int32_t thread)
    : part_(part),
      thread_(thread),
      source_(part.options.record_size, part.lines(),
              part.options.seed + static_cast<uint64_t>(thread)),
      streams_(static_cast<size_t>(part.Share(part.options.connections, thread))) {}

absl::Status EchoLoad::Open(Connector& connector) {
  connector_ = &connector;
  for (uint32_t i = 0; i < streams_.size(); ++i) {
    streams_[i].id = static_cast<uint32_t>(thread_) << 24 | i;
  }
  absl::Status status;
  while (status.ok() && opened_count_ < std::min(kConnectsAtOnce, streams_.size())) {
    status = Connect(static_cast<uint32_t>(opened_count_++));
  }
  return status;
}

absl::Status EchoLoad::Connect(uint32_t index) {
  const size_t peer = index % part_.addresses.size();
  absl::StatusOr<ConnectionHandle> connection = connector_->Connect(part_.addresses[peer]);
  if (!connection.ok()) return connection.status();
  streams_[index].connection = *connection;
  streams_[index].connecting = true;
  if (connection->slot >= stream_of_slot_.size()) stream_of_slot_.resize(connection->slot + 1);
  stream_of_slot_[connection->slot] = index;
  return absl::OkStatus();
}

EchoLoad::Stream* EchoLoad::StreamOf(ConnectionHandle connection) {
  Stream& stream = streams_[stream_of_slot_[connection.slot]];
  return stream.connection == connection ? &stream : nullptr;
}

void EchoLoad::OnConnected(ConnectionHandle connection) {
  Stream* const stream = StreamOf(connection);
  if (stream == nullptr) return;
  stream->open = true;
  stream->connecting = false;
  ++open_count_;
  if (opened_count_ < streams_.size()) {
    if (absl::Status status = Connect(static_cast<uint32_t>(opened_count_++)); !status.ok()) {
      failure_ = status;
    }
  }
  if (recorder_ != nullptr) {
    schedule_.NoteRoom(part_.clock->NowNs());
    OfferRoom(*stream);
  }
}

void EchoLoad::OnClosed(ConnectionHandle connection, const absl::Status& why) {
  Stream* const stream = StreamOf(connection);
  if (stream == nullptr) return;
  if (recorder_ == nullptr) {
    failure_ = why;
    return;
  }
  if (stream->open) {
    --open_count_;
    lost_connections_.Add(why.message());
  }
  stream->open = false;
  stream->connecting = false;
  SettleStream(*stream);
  const int64_t now_ns = part_.clock->NowNs();
  // At the next turn of the clock: a server that is down is not asked in a loop.
  next_timeout_check_ns_ = std::min(next_timeout_check_ns_, now_ns + 10'000'000);
}

void EchoLoad::SettleStream(Stream& stream) {
  const CheckCounts counts = stream.check.SettleAlone();
  counts_.Add(counts);
  unanswered_ += stream.outstanding - counts.lost;
  outstanding_ -= stream.outstanding;
  stream.outstanding = 0;
  stream.asked.clear();
  stream.check = StreamCheck(stream.next_number);
}

void EchoLoad::Start(Recorder& recorder) {
  recorder_ = &recorder;
  schedule_ = part_.MakeSchedule(recorder.window(), thread_);
  next_timeout_check_ns_ = recorder.window().start_ns + kTimeoutCheckNs;
  for (Stream& stream : streams_) OfferRoom(stream);
}

void EchoLoad::OfferRoom(Stream& stream) {
  if (!stream.open || stream.queued || stream.outstanding >= part_.options.depth()) return;
  stream.queued = true;
  with_room_.push_back(static_cast<uint32_t>(&stream - streams_.data()));
}

int64_t EchoLoad::Turn(int64_t now_ns) {
  while (const std::optional<int64_t> due = schedule_.Due(now_ns)) {
    if (with_room_.empty()) {
      schedule_.NoteBlocked();
      break;
    }
    Stream& stream = streams_[with_room_.front()];
    with_room_.pop_front();
    stream.queued = false;
    if (!stream.open) continue;
    Ask(stream, *due, part_.clock->NowNs());
    schedule_.Started();
    OfferRoom(stream);
  }
  if (now_ns >= next_timeout_check_ns_) {
    next_timeout_check_ns_ = now_ns + kTimeoutCheckNs;
    for (Stream& stream : streams_) {
      if (!stream.asked.empty() &&
          now_ns - stream.asked.front().started_ns > part_.options.timeout_ns) {
        connector_->Close(stream.connection);
        recorder_->Error("an echo did not come within --timeout", now_ns);
        OnClosed(stream.connection, absl::OkStatus());
      }
      if (!stream.open && !stream.connecting && !schedule_.Exhausted(now_ns)) {
        Connect(static_cast<uint32_t>(&stream - streams_.data())).IgnoreError();
      }
    }
  }
  return with_room_.empty() ? next_timeout_check_ns_
                            : std::min(schedule_.NextNs(now_ns), next_timeout_check_ns_);
}

void EchoLoad::Ask(Stream& stream, int64_t intended_ns, int64_t now_ns) {
  if (!schedule_.is_open_loop()) intended_ns = now_ns;
  source_.Make({.run = part_.run,
                .stream = stream.id,
                .number = stream.next_number,
                .intended_ns = intended_ns,
                .made_ns = now_ns},
               &payload_);
  std::string frame(sizeof(int32_t) + payload_.size(), '\0');
  StoreBigEndian<int32_t>(frame.data(), static_cast<int32_t>(payload_.size()));
  std::copy(payload_.begin(), payload_.end(), frame.begin() + sizeof(int32_t));
  ++stream.next_number;
  ++stream.outstanding;
  ++outstanding_;
  stream.asked.push_back({intended_ns, now_ns, Crc32c(payload_)});
  if (schedule_.is_open_loop()) {
    recorder_->Started(intended_ns, now_ns, schedule_.OwnDelayNs(intended_ns, now_ns));
  }
  connector_->Send(stream.connection, std::move(frame));
}

std::optional<int64_t> EchoLoad::NumberOf(const Stream& stream, absl::string_view payload) const {
  PayloadHeader header;
  if (OpenPayload(payload, &header) == PayloadState::kOurs) {
    const bool ours = header.run == part_.run && header.stream == stream.id &&
                      header.number < stream.next_number && header.number >= 0;
    return ours ? std::optional<int64_t>(header.number) : std::nullopt;
  }
  // Too small to say what it is: it must be what was asked first.
  if (payload.size() >= kPayloadHeaderBytes || stream.asked.empty() ||
      Crc32c(payload) != stream.asked.front().crc) {
    return std::nullopt;
  }
  return stream.next_number - static_cast<int64_t>(stream.asked.size());
}

void EchoLoad::OnFrame(ConnectionHandle connection, absl::string_view payload) {
  Stream* const stream = StreamOf(connection);
  if (stream == nullptr || recorder_ == nullptr) return;
  const int64_t now_ns = part_.clock->NowNs();
  const std::optional<int64_t> number = NumberOf(*stream, payload);
  if (!number.has_value()) {
    ++counts_.corrupted;
    // It was the answer to something: most likely to the oldest.
    const int64_t first = stream->next_number - static_cast<int64_t>(stream->asked.size());
    const auto oldest = std::find_if(stream->asked.begin(), stream->asked.end(),
                                     [](const Asked& asked) { return !asked.answered; });
    if (oldest != stream->asked.end()) {
      stream->check.OnRecord(first + (oldest - stream->asked.begin()));
      oldest->answered = true;
      --stream->outstanding;
      --outstanding_;
    }
  } else {
    const int64_t first = stream->next_number - static_cast<int64_t>(stream->asked.size());
    const bool again = stream->check.OnRecord(*number) == StreamCheck::Seen::kAgain;
    if (!again && *number >= first) {
      Asked& asked = stream->asked[static_cast<size_t>(*number - first)];
      asked.answered = true;
      --stream->outstanding;
      --outstanding_;
      recorder_->Done(asked.intended_ns, asked.started_ns, now_ns,
                      static_cast<int64_t>(payload.size()));
    }
  }
  while (!stream->asked.empty() && stream->asked.front().answered) stream->asked.pop_front();
  schedule_.NoteRoom(now_ns);
  OfferRoom(*stream);
}

bool EchoLoad::Done(int64_t now_ns) const {
  if (now_ns < recorder_->window().end_ns) return false;
  return outstanding_ == 0 && schedule_.Exhausted(now_ns);
}

void EchoLoad::Collect(PartResult* result) {
  for (Stream& stream : streams_) SettleStream(stream);
  result->checked = true;
  result->checks.Add(counts_);
  result->unanswered += unanswered_;
  result->lost_connections.Add(lost_connections_);
  if (recorder_ != nullptr && !schedule_.Exhausted(recorder_->window().end_ns)) {
    ++result->not_started;
  }
}

}  // namespace gyre::load
