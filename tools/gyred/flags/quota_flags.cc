#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/socket_server.h"
#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_int32(max_connections, std::numeric_limits<int32_t>::max(),
             "Connections at most; the next ones wait to be accepted. Lowered below what there is, "
             "those used least recently are closed.");
DEFINE_int32(max_connections_per_ip, std::numeric_limits<int32_t>::max(),
             "From one address; the next ones are closed. 0 needs overrides.");
DEFINE_string(max_connections_per_ip_overrides, "",
              "HOST:COUNT,… instead of max_connections_per_ip. Names are looked up when this is "
              "set, and every address of one gets the count.");
DEFINE_int32(max_connection_creation_rate, std::numeric_limits<int32_t>::max(),
             "New connections per second; beyond it they wait to be accepted.");
DEFINE_int32(max_connection_creation_rate_per_ip, std::numeric_limits<int32_t>::max(),
             "New connections per second from one address; beyond it they are held unserved until "
             "one more would pass, and closed.");
DEFINE_string(
    max_connection_creation_rate_per_ip_overrides, "",
    "HOST:RATE,… instead of max_connection_creation_rate_per_ip. Names are looked up when "
    "this is set, and every address of one gets the rate.");
DEFINE_int32(quota_window_num, 11,
             "Rates let a burst of (quota_window_num - 1) x quota_window_size_seconds seconds' "
             "worth pass at once.");
DEFINE_int32(quota_window_size_seconds, 1, "See quota_window_num.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  SocketServerOptions& network = options.network;
  network.max_connections = FLAGS_max_connections;
  network.max_connections_per_ip = FLAGS_max_connections_per_ip;
  network.max_connections_per_ip_overrides = FLAGS_max_connections_per_ip_overrides;
  network.max_connection_creation_rate = FLAGS_max_connection_creation_rate;
  network.max_connection_creation_rate_per_ip = FLAGS_max_connection_creation_rate_per_ip;
  network.max_connection_creation_rate_per_ip_overrides =
      FLAGS_max_connection_creation_rate_per_ip_overrides;
  network.quota_window_num = FLAGS_quota_window_num;
  network.quota_window_size_seconds = FLAGS_quota_window_size_seconds;
  if (FLAGS_max_connections_per_ip == 0 && FLAGS_max_connections_per_ip_overrides.empty()) {
    return absl::InvalidArgumentError(
        "--max_connections_per_ip=0 refuses every address; it needs "
        "--max_connections_per_ip_overrides");
  }
  return absl::OkStatus();
}

ConnectionQuotas& Quotas(BrokerServer& server) { return server.network().connection_quotas(); }

absl::Status SetOverrides(BrokerServer& server) {
  GYRE_ASSIGN_OR_RETURN(IpLimits overrides, ParseIpCounts(FLAGS_max_connections_per_ip_overrides),
                        "--max_connections_per_ip_overrides");
  return Quotas(server).SetMaxConnectionsPerIpOverrides(std::move(overrides));
}

absl::Status SetRateOverrides(BrokerServer& server) {
  constexpr char kFlag[] = "--max_connection_creation_rate_per_ip_overrides";
  GYRE_ASSIGN_OR_RETURN(IpLimits overrides,
                        ParseIpRates(FLAGS_max_connection_creation_rate_per_ip_overrides), kFlag);
  return Annotate(Quotas(server).SetMaxConnectionCreationRatePerIpOverrides(std::move(overrides)),
                  kFlag);
}

}  // namespace

FlagGroup QuotaFlags() {
  return {
      "How many connections, and how fast",
      {
          FlagSpec("max_connections").AtLeast(1).Live([](BrokerServer& server) {
            return Quotas(server).SetMaxConnections(FLAGS_max_connections);
          }),
          FlagSpec("max_connections_per_ip").AtLeast(0).Live([](BrokerServer& server) {
            return Quotas(server).SetMaxConnectionsPerIp(FLAGS_max_connections_per_ip);
          }),
          FlagSpec("max_connections_per_ip_overrides").Live(&SetOverrides),
          FlagSpec("max_connection_creation_rate").AtLeast(1).Live([](BrokerServer& server) {
            return Quotas(server).SetMaxConnectionCreationRate(FLAGS_max_connection_creation_rate);
          }),
          FlagSpec("max_connection_creation_rate_per_ip").AtLeast(1).Live([](BrokerServer& server) {
            return Quotas(server).SetMaxConnectionCreationRatePerIp(
                FLAGS_max_connection_creation_rate_per_ip);
          }),
          FlagSpec("max_connection_creation_rate_per_ip_overrides").Live(&SetRateOverrides),
          FlagSpec("quota_window_num").Between(2, 1000),
          FlagSpec("quota_window_size_seconds").Between(1, 3600),
      },
      &Apply};
}

}  // namespace gyre
