// One request at a time, waited for: what setting a run up needs. Never waits longer than
// its timeout, whatever the other side does.
//
// Threads: the one that made it.
#ifndef GYRE_TOOLS_LOAD_KAFKA_SYNC_CLIENT_H_
#define GYRE_TOOLS_LOAD_KAFKA_SYNC_CLIENT_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/network/connector.h"
#include "proto/frame.h"
#include "tools/load/kafka/cluster.h"
#include "tools/load/options.h"

namespace gyre::load {

class SyncClient final : public ConnectorEvents {
 public:
  static absl::StatusOr<std::unique_ptr<SyncClient>> Make(const Options& options,
                                                          const Clock& clock,
                                                          const std::atomic<bool>& interrupted);

  // Drops the connection there was.
  absl::Status ConnectTo(const SocketAddress& peer);

  // Views in the response last until the next call.
  template <typename Request>
  absl::StatusOr<typename Request::Response> Call(const Request& request, int16_t version) {
    std::string bytes(proto::RequestSize(request, kClientId, version), '\0');
    wire::Writer writer(bytes.data(), bytes.size());
    proto::EncodeRequest(writer, request, kClientId, ++correlation_id_, version);
    const absl::string_view api = ApiKeyName(Request::kApiKey);
    GYRE_RETURN_IF_ERROR(Exchange(std::move(bytes), api));
    wire::Reader reader(frame_);
    reader.set_allocation_limit(kMaxDecodedBytes);
    proto::ResponseHeader header;
    typename Request::Response response;
    if (!proto::DecodeResponseHeader(reader, Request::kApiKey, version, header) ||
        header.correlation_id != correlation_id_ || !response.Decode(reader, version)) {
      return absl::DataLossError(absl::StrCat(peer_.ToString(), ": what it answered to ", api,
                                              " is not what a Kafka broker answers"));
    }
    return response;
  }

  const SocketAddress& peer() const { return peer_; }

  void OnConnected(ConnectionHandle connection) override;
  void OnFrame(ConnectionHandle connection, absl::string_view payload) override;
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override;

 private:
  static constexpr size_t kMaxDecodedBytes = 64 << 20;

  SyncClient(const Options& options, const Clock& clock, const std::atomic<bool>& interrupted)
      : clock_(clock), interrupted_(interrupted), timeout_ns_(options.timeout_ns) {}

  absl::Status Exchange(std::string request, absl::string_view api);
  // Turns the connector until `done` or the deadline.
  template <typename Done>
  absl::Status Await(Done done, absl::string_view what);

  const Clock& clock_;
  const std::atomic<bool>& interrupted_;
  const int64_t timeout_ns_;
  const Int32LengthPrefixed decoder_{64 << 20};
  std::unique_ptr<uring::Ring> ring_;
  std::unique_ptr<Connector> connector_;
  SocketAddress peer_;
  std::optional<ConnectionHandle> connection_;
  bool connected_ = false;
  bool answered_ = false;
  absl::Status closed_;
  int32_t correlation_id_ = 0x67790000;
  std::string frame_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_SYNC_CLIENT_H_
