#include "tools/load/kafka/channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gyre::load {
namespace {

constexpr int64_t kFirstPauseNs = 20'000'000;
constexpr int64_t kLongestPauseNs = 500'000'000;
// Decoded, an answer may be larger than on the wire.
constexpr size_t kMaxDecodedBytes = 256 << 20;

}  // namespace

void ChannelRouter::Bind(ConnectionHandle connection, Channel* channel) {
  if (connection.slot >= by_slot_.size()) by_slot_.resize(connection.slot + 1);
  by_slot_[connection.slot] = channel;
}

Channel* ChannelRouter::Find(ConnectionHandle connection) const {
  Channel* const channel = connection.slot < by_slot_.size() ? by_slot_[connection.slot] : nullptr;
  return channel != nullptr && channel->is(connection) ? channel : nullptr;
}

void ChannelRouter::OnConnected(ConnectionHandle connection) {
  if (Channel* const channel = Find(connection)) channel->OnConnected();
}

void ChannelRouter::OnFrame(ConnectionHandle connection, absl::string_view payload) {
  if (Channel* const channel = Find(connection)) channel->OnFrame(payload);
}

void ChannelRouter::OnClosed(ConnectionHandle connection, const absl::Status& why) {
  if (Channel* const channel = Find(connection)) channel->OnClosed(why);
}

Channel::~Channel() {
  if (state_ == State::kDown) return;
  router_.Bind(connection_, nullptr);
  connector_.Close(connection_);
}

void Channel::Turn(int64_t now_ns) {
  if (state_ == State::kDown && now_ns >= retry_at_ns_) {
    absl::StatusOr<ConnectionHandle> connection = connector_.Connect(peer_);
    retry_at_ns_ = now_ns + kLongestPauseNs;
    if (!connection.ok()) return;
    connection_ = *connection;
    state_ = State::kConnecting;
    router_.Bind(connection_, this);
  }
  if (!in_flight_.empty() && now_ns - in_flight_.front().at_ns > timeout_ns_) {
    Break(absl::DeadlineExceededError(absl::StrCat(peer_.ToString(), ": no answer to ",
                                                   ApiKeyName(in_flight_.front().api), " within ",
                                                   timeout_ns_ / 1'000'000, " ms")));
  }
}

void Channel::OnConnected() {
  state_ = State::kUp;
  pause_ns_ = 0;
}

void Channel::OnFrame(absl::string_view payload) {
  wire::Reader reader(payload);
  reader.set_allocation_limit(kMaxDecodedBytes);
  proto::ResponseHeader header;
  if (in_flight_.empty()) {
    return Break(absl::DataLossError(absl::StrCat(peer_.ToString(), ": an answer to nothing")));
  }
  const Sent sent = in_flight_.front();
  if (!proto::DecodeResponseHeader(reader, sent.api, sent.version, header) ||
      header.correlation_id != sent.correlation_id) {
    return Break(absl::DataLossError(absl::StrCat(
        peer_.ToString(), ": the answer to another request than the next ", ApiKeyName(sent.api))));
  }
  in_flight_.pop_front();
  if (!events_.OnResponse(*this, sent.tag, reader)) {
    // Its tag is no longer among those under way, but nothing came of it.
    in_flight_.push_front(sent);
    Break(absl::DataLossError(
        absl::StrCat(peer_.ToString(), ": a malformed ", ApiKeyName(sent.api), " response")));
  }
}

void Channel::OnClosed(const absl::Status& why) {
  if (state_ == State::kUp) lost_connections_.Add(why.message());
  state_ = State::kDown;
  pause_ns_ = std::clamp(pause_ns_ * 2, kFirstPauseNs, kLongestPauseNs);
  retry_at_ns_ = clock_.NowNs() + pause_ns_;
  std::vector<uint64_t> tags;
  for (const Sent& sent : in_flight_) tags.push_back(sent.tag);
  in_flight_.clear();
  events_.OnBroken(*this, why, tags);
}

void Channel::Break(const absl::Status& why) {
  connector_.Close(connection_);
  OnClosed(why);
}

}  // namespace gyre::load
