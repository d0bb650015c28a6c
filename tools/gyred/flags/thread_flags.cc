#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/broker/broker_lanes.h"
#include "engine/network/socket_server.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"
#include "tools/gyred/flags/live_connection.h"

DEFINE_int32(num_network_threads, 3, "Processors, each with an io_uring of its own.");
DEFINE_int32(num_io_threads, 8, "Handlers, which run the requests.");
DEFINE_string(dispatch, "pool",
              "pool: requests run on handlers. inline: those that never block run on the "
              "processor.");
DEFINE_int32(queued_max_requests, 500,
             "Requests that wait for a handler, in each lane; a connection that finds its lane "
             "full waits alone.");
DEFINE_string(request_lane_weights, "",
              "LANE:WEIGHT,… for control, produce, fetch and other: each lane's share of the "
              "handlers' turns, in requests. Those not named keep control:8, produce:4, "
              "fetch:4, other:2.");
DEFINE_int32(max_in_flight_requests_per_connection, 5,
             "Produce requests of one connection in flight at once: they start in order, and "
             "answers keep it. Other requests are alone. Kafka's is 1.");
DEFINE_int64(max_in_flight_bytes_per_connection, 8 << 20,
             "What those may take, of requests and of answers that are not sent; one alone may "
             "take more.");

namespace gyre {

namespace {

absl::Status ParseLaneWeights(absl::string_view text, std::vector<RequestLaneOptions>& lanes) {
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, ':');
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&](const auto& l) { return l.name == parts.first; });
    int32_t weight = 0;
    if (lane == lanes.end() || !absl::SimpleAtoi(parts.second, &weight) || weight < 1 ||
        weight > kMaxLaneWeight) {
      return BadFlagValue("request_lane_weights", entry,
                          absl::StrCat("control, produce, fetch or other, a colon, and a number "
                                       "from 1 to ",
                                       kMaxLaneWeight));
    }
    lane->weight = weight;
  }
  return absl::OkStatus();
}

absl::Status Apply(BrokerServerOptions& options) {
  SocketServerOptions& network = options.network;
  network.num_network_threads = FLAGS_num_network_threads;
  network.num_io_threads = FLAGS_num_io_threads;
  network.queued_max_requests = FLAGS_queued_max_requests;
  ConnectionOptions& connection = network.processor.connection;
  CHECK(ParseDispatch(FLAGS_dispatch, &connection.dispatch));  // one of the choices
  connection.max_in_flight_requests_per_connection = FLAGS_max_in_flight_requests_per_connection;
  connection.max_in_flight_bytes_per_connection = FLAGS_max_in_flight_bytes_per_connection;
  network.lanes = DefaultLanes();
  return ParseLaneWeights(FLAGS_request_lane_weights, network.lanes);
}

absl::Status SetLaneWeights(BrokerServer& server) {
  std::vector<RequestLaneOptions> lanes = DefaultLanes();
  GYRE_RETURN_IF_ERROR(ParseLaneWeights(FLAGS_request_lane_weights, lanes));
  return server.network().SetLaneWeights(lanes);
}

absl::Status SetInFlight(BrokerServer& server) {
  return ChangeConnections(server, [](ConnectionOptions& options) {
    options.max_in_flight_requests_per_connection = FLAGS_max_in_flight_requests_per_connection;
    options.max_in_flight_bytes_per_connection = FLAGS_max_in_flight_bytes_per_connection;
  });
}

}  // namespace

FlagGroup ThreadFlags() {
  return {"Threads and queues",
          {
              FlagSpec("num_network_threads").Between(1, 256).Live([](BrokerServer& server) {
                return server.network().ResizeNetworkThreads(FLAGS_num_network_threads);
              }),
              FlagSpec("num_io_threads").Between(1, 1024).Live([](BrokerServer& server) {
                return server.network().ResizeHandlerThreads(FLAGS_num_io_threads);
              }),
              FlagSpec("dispatch").OneOf({"pool", "inline"}),
              FlagSpec("queued_max_requests").Between(1, 1 << 20),
              FlagSpec("request_lane_weights").Live(&SetLaneWeights),
              FlagSpec("max_in_flight_requests_per_connection").Between(1, 1024).Live(&SetInFlight),
              FlagSpec("max_in_flight_bytes_per_connection").AtLeast(1).Live(&SetInFlight),
          },
          &Apply};
}

}  // namespace gyre
