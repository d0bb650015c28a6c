#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"
#include "tools/gyred/flags/live_connection.h"

DEFINE_int64(queued_max_request_bytes, -1,
             "Bytes of requests read and not yet answered; -1: no limit.");
DEFINE_int64(memory_limit_bytes, 0,
             "Requests, answers and buffers together take no more; 0: half of what the cgroup or "
             "the machine has, -1: no limit. Beyond it requests wait, and those are closed that "
             "hold memory and hardly move: slow readers of large answers, slow senders of large "
             "requests.");
DEFINE_int64(socket_request_max_bytes, 104857600, "A larger request closes its connection.");
DEFINE_int64(receive_ahead_bytes, 65536,
             "Of one connection's requests that must wait for their turn, so many bytes are "
             "received meanwhile; what comes beyond them waits in its socket. 0: none.");

namespace gyre {

namespace {

// What the network layer can take: its largest range, less a page.
constexpr int64_t kMaxRequestBytes = (int64_t{1} << 30) - 4096;

absl::Status Apply(BrokerServerOptions& options) {
  // One request of the largest size, with its length, has to fit.
  const int64_t least_budget = FLAGS_socket_request_max_bytes + 4;
  if (FLAGS_queued_max_request_bytes > 0 && FLAGS_queued_max_request_bytes < least_budget) {
    return BadFlagValue("queued_max_request_bytes", absl::StrCat(FLAGS_queued_max_request_bytes),
                        absl::StrCat("-1, 0 or at least ", least_budget,
                                     " (socket_request_max_bytes and its length)"));
  }
  options.network.queued_max_request_bytes = FLAGS_queued_max_request_bytes;
  options.network.memory_limit_bytes = FLAGS_memory_limit_bytes;
  ConnectionOptions& connection = options.network.processor.connection;
  connection.socket_request_max_bytes = FLAGS_socket_request_max_bytes;
  connection.receive_ahead_bytes = FLAGS_receive_ahead_bytes;
  return absl::OkStatus();
}

absl::Status SetMaxRequest(BrokerServer& server) {
  return ChangeConnections(server, [](ConnectionOptions& options) {
    options.socket_request_max_bytes = FLAGS_socket_request_max_bytes;
  });
}

absl::Status SetReceiveAhead(BrokerServer& server) {
  return ChangeConnections(server, [](ConnectionOptions& options) {
    options.receive_ahead_bytes = FLAGS_receive_ahead_bytes;
  });
}

}  // namespace

FlagGroup MemoryFlags() {
  return {
      "Memory",
      {
          FlagSpec("memory_limit_bytes").AtLeast(-1),
          FlagSpec("queued_max_request_bytes").AtLeast(-1),
          FlagSpec("socket_request_max_bytes").Between(1, kMaxRequestBytes).Live(&SetMaxRequest),
          FlagSpec("receive_ahead_bytes").Between(0, int64_t{1} << 30).Live(&SetReceiveAhead),
      },
      &Apply};
}

}  // namespace gyre
