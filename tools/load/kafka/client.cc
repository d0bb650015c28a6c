#include "tools/load/kafka/client.h"

namespace gyre::load {
namespace {

// Not more often than this, however many producers ask.
constexpr int64_t kMetadataPauseNs = 100'000'000;

}  // namespace

void KafkaShared::NoteAcknowledged(int32_t partition, int64_t end_offset) {
  std::atomic<int64_t>& end = acknowledged_end[static_cast<size_t>(partition)];
  int64_t known = end.load(std::memory_order_relaxed);
  while (known < end_offset &&
         !end.compare_exchange_weak(known, end_offset, std::memory_order_relaxed)) {
  }
}

void KafkaClient::Turn(int64_t now_ns) {
  if (!metadata_wanted_ || now_ns < ask_at_ns_) return;
  if (control_ != nullptr && move_on_) control_ = nullptr;
  move_on_ = false;
  if (control_ == nullptr) {
    control_ =
        std::make_unique<Channel>(connector_, router_, *part_.clock, part_.options.timeout_ns,
                                  part_.addresses[next_address_], *this);
  }
  control_->Turn(now_ns);
  if (!control_->up() || metadata_asked_) return;
  metadata_asked_ = true;
  control_->Send(MakeMetadataRequest(part_.options.topic), cluster_.VersionOf(ApiKey::kMetadata),
                 0);
}

bool KafkaClient::OnResponse(Channel&, uint64_t, wire::Reader& reader) {
  metadata_asked_ = false;
  ask_at_ns_ = NowNs() + kMetadataPauseNs;
  proto::MetadataResponse response;
  if (!response.Decode(reader, cluster_.VersionOf(ApiKey::kMetadata))) return false;
  // Anything but success is asked again: a broker that starts knows its topics late.
  if (ApplyMetadata(response, part_.options.topic, *part_.hosts, &cluster_).ok())
    metadata_wanted_ = false;
  return true;
}

void KafkaClient::OnBroken(Channel&, const absl::Status&, const std::vector<uint64_t>&) {
  metadata_asked_ = false;
  ask_at_ns_ = NowNs() + kMetadataPauseNs;
  if (part_.addresses.size() < 2) return;
  // The broken channel cannot go in its own event.
  move_on_ = true;
  next_address_ = (next_address_ + 1) % part_.addresses.size();
}

Channel* ChannelSet::ToLeader(int32_t partition) {
  const Cluster& cluster = client_.cluster();
  const SocketAddress* const address = cluster.LeaderOf(partition);
  if (address == nullptr) return nullptr;
  std::unique_ptr<Channel>& channel = by_node_[cluster.leaders[static_cast<size_t>(partition)]];
  if (channel == nullptr) {
    channel =
        std::make_unique<Channel>(client_.connector(), client_.router(), *client_.part().clock,
                                  client_.options().timeout_ns, *address, events_);
  }
  return channel.get();
}

void ChannelSet::Turn(int64_t now_ns) {
  for (auto& [node, channel] : by_node_) channel->Turn(now_ns);
}

void ChannelSet::LetGo() {
  lost_before_ = lost_connections();
  by_node_.clear();
}

LostConnections ChannelSet::lost_connections() const {
  LostConnections lost = lost_before_;
  for (const auto& [node, channel] : by_node_) lost.Add(channel->lost_connections());
  return lost;
}

}  // namespace gyre::load
