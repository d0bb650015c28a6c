#include "tools/load/workloads/idle.h"

#include <algorithm>

namespace gyre::load {
namespace {

constexpr size_t kConnectsAtOnce = 16;

}  // namespace

absl::Status IdleLoad::Open(Connector& connector) {
  connector_ = &connector;
  absl::Status status;
  while (status.ok() && opened_count_ < std::min(kConnectsAtOnce, wanted_count_)) {
    status = ConnectNext();
  }
  return status;
}

absl::Status IdleLoad::ConnectNext() {
  return connector_->Connect(part_.addresses[opened_count_++ % part_.addresses.size()]).status();
}

void IdleLoad::OnConnected(ConnectionHandle) {
  ++open_count_;
  if (opened_count_ == wanted_count_) return;
  if (absl::Status status = ConnectNext(); !status.ok()) failure_ = status;
}

void IdleLoad::OnClosed(ConnectionHandle, const absl::Status& why) {
  if (recorder_ == nullptr) {
    failure_ = why;
  } else {
    --open_count_;
    lost_connections_.Add(why.message());
  }
}

void IdleLoad::Collect(PartResult* result) {
  result->has_latency = false;
  result->lost_connections.Add(lost_connections_);
  result->open_connections += static_cast<int64_t>(open_count_);
}

}  // namespace gyre::load
