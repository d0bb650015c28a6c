#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/endpoint.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"
#include "tools/gyred/flags/live_connection.h"

DEFINE_string(admin_listener, "",
              "HOST:PORT for HTTP: /metrics, /health, /ready, /flags, /connections, /version. It "
              "answers while the broker recovers, is full or drains. Empty: none.");
DEFINE_string(admin_writes, "loopback",
              "Who may set live flags over HTTP: loopback (this host only), any or none.");
DEFINE_int32(admin_max_connections, 64,
             "Connections to the admin listener; max_connections does not count them. For a new "
             "one beyond it the least recently used one is closed.");
DEFINE_int64(admin_connections_max_idle_ms, 60'000,
             "An admin connection is closed after so long without a request.");

DEFINE_int64(slow_request_log_ms, -1,
             "A request that takes at least this long gets a line in the log with its seven times "
             "(a few lines every ten seconds); -1: none does. Fetches that wait for data are slow "
             "by their clients' wish.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  options.network.processor.connection.slow_request_log_ms = FLAGS_slow_request_log_ms;
  CHECK(ParseAdminWrites(FLAGS_admin_writes, &options.admin.writes));  // one of the choices
  options.admin.max_connections = FLAGS_admin_max_connections;
  options.admin.connections_max_idle_ms = FLAGS_admin_connections_max_idle_ms;
  if (FLAGS_admin_listener.empty()) return absl::OkStatus();
  GYRE_ASSIGN_OR_RETURN(options.admin.endpoint, ParseHostPort(FLAGS_admin_listener),
                        "--admin_listener");
  options.admin.endpoint.listener_name = "ADMIN";
  options.admin.enabled = true;
  return absl::OkStatus();
}

absl::Status SetSlowLog(BrokerServer& server) {
  return ChangeConnections(server, [](ConnectionOptions& options) {
    options.slow_request_log_ms = FLAGS_slow_request_log_ms;
  });
}

// glog reads its flags itself.
absl::Status NothingToCarry(BrokerServer&) { return absl::OkStatus(); }

}  // namespace

FlagGroup AdminFlags() {
  return {"Administration and the log",
          {
              FlagSpec("admin_listener"),
              FlagSpec("admin_writes").OneOf({"loopback", "any", "none"}),
              FlagSpec("admin_max_connections").Between(1, 10'000),
              FlagSpec("admin_connections_max_idle_ms").Between(1'000, 86'400'000),
              FlagSpec("slow_request_log_ms").Between(-1, 86'400'000).Live(&SetSlowLog),
              FlagSpec("minloglevel")
                  .Help("Log lines below this are left out: 0 info, 1 warning, 2 error.")
                  .Between(0, 2)
                  .Live(&NothingToCarry),
          },
          &Apply};
}

}  // namespace gyre
