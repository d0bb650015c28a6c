#include "tools/load/kafka/sync_client.h"

#include <utility>

#include "absl/memory/memory.h"

#include "tools/load/load_ring.h"

namespace gyre::load {
namespace {

constexpr int64_t kMaxWaitNs = 50'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<SyncClient>> SyncClient::Make(const Options& options,
                                                             const Clock& clock,
                                                             const std::atomic<bool>& interrupted) {
  auto client = absl::WrapUnique(new SyncClient(options, clock, interrupted));
  GYRE_ASSIGN_OR_RETURN(client->ring_, MakeLoadRing(options));
  ConnectorOptions connector_options;
  connector_options.connect_timeout_ns = options.timeout_ns;
  connector_options.receive_buffer_count = 16;
  client->connector_ = std::make_unique<Connector>(*client->ring_, clock, client->decoder_, *client,
                                                   connector_options);
  GYRE_RETURN_IF_ERROR(client->connector_->Attach());
  return client;
}

template <typename Done>
absl::Status SyncClient::Await(Done done, absl::string_view what) {
  const int64_t deadline_ns = clock_.NowNs() + timeout_ns_;
  while (!done()) {
    if (!closed_.ok()) return closed_;
    if (interrupted_.load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
    if (clock_.NowNs() > deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat(peer_.ToString(), ": no answer to ", what,
                                                      " within ", timeout_ns_ / 1'000'000, " ms"));
    }
    connector_->RunOnce(kMaxWaitNs);
  }
  return absl::OkStatus();
}

absl::Status SyncClient::ConnectTo(const SocketAddress& peer) {
  if (connection_.has_value()) connector_->Close(*connection_);
  peer_ = peer;
  connected_ = false;
  closed_ = absl::OkStatus();
  GYRE_ASSIGN_OR_RETURN(connection_, connector_->Connect(peer));
  return Await([this] { return connected_; }, "the connect");
}

absl::Status SyncClient::Exchange(std::string request, absl::string_view api) {
  answered_ = false;
  if (!connection_.has_value() || !connector_->Send(*connection_, std::move(request))) {
    return closed_.ok() ? absl::UnavailableError("not connected") : closed_;
  }
  GYRE_RETURN_IF_ERROR(Await([this] { return answered_; }, api), absl::StrCat(api));
  return absl::OkStatus();
}

void SyncClient::OnConnected(ConnectionHandle connection) {
  if (connection_ == connection) connected_ = true;
}

void SyncClient::OnFrame(ConnectionHandle connection, absl::string_view payload) {
  if (connection_ != connection || answered_) return;
  frame_ = std::string(payload);
  answered_ = true;
}

void SyncClient::OnClosed(ConnectionHandle connection, const absl::Status& why) {
  if (connection_ == connection) closed_ = why;
}

}  // namespace gyre::load
