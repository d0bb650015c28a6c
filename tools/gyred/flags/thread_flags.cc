#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_int32(num_network_threads, 3, "Processors, each with an io_uring of its own.");
DEFINE_int32(num_io_threads, 8, "Handlers, which run the requests.");
DEFINE_string(dispatch, "pool",
              "pool: requests run on handlers. inline: those that never block run on the "
              "processor.");
DEFINE_int32(queued_max_requests, 500,
             "Requests that wait for a handler; a connection that finds the queue full waits "
             "alone.");
DEFINE_int32(max_in_flight_requests_per_connection, 1,
             "Requests of one connection started at once; answers keep their order. Kafka's "
             "is 1.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  SocketServerOptions& network = options.network;
  network.num_network_threads = FLAGS_num_network_threads;
  network.num_io_threads = FLAGS_num_io_threads;
  network.queued_max_requests = FLAGS_queued_max_requests;
  ConnectionOptions& connection = network.processor.connection;
  CHECK(ParseDispatch(FLAGS_dispatch, &connection.dispatch));  // one of the choices
  connection.max_in_flight_requests_per_connection = FLAGS_max_in_flight_requests_per_connection;
  return absl::OkStatus();
}

}  // namespace

FlagGroup ThreadFlags() {
  return {"Threads and queues",
          {
              FlagSpec("num_network_threads").Between(1, 256),
              FlagSpec("num_io_threads").Between(1, 1024),
              FlagSpec("dispatch").OneOf({"pool", "inline"}),
              FlagSpec("queued_max_requests").Between(1, 1 << 20),
              FlagSpec("max_in_flight_requests_per_connection").Between(1, 1024),
          },
          &Apply};
}

}  // namespace gyre
