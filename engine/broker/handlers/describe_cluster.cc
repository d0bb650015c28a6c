#include "engine/broker/handlers/describe_cluster.h"

#include "engine/broker/authorized_operations.h"
#include "engine/broker/broker_config.h"
#include "proto/describe_cluster.h"

namespace gyre {

namespace {

constexpr int8_t kBrokerEndpoints = 1;
constexpr int8_t kControllerEndpoints = 2;

}  // namespace

void HandleDescribeCluster(const BrokerServices& services, RequestContext context) {
  proto::DescribeClusterRequest request;
  if (!context.Decode(request)) return;
  proto::DescribeClusterResponse response;
  if (request.endpoint_type == kControllerEndpoints) {
    response.error_code = ErrorCode::kMismatchedEndpointType;
    response.error_message = "The request was sent to an endpoint of type BROKER";
    return context.Reply(response);
  }
  if (request.endpoint_type != kBrokerEndpoints) {
    response.error_code = ErrorCode::kUnsupportedEndpointType;
    response.error_message = "Unsupported endpoint type";
    return context.Reply(response);
  }
  response.cluster_id = services.config.cluster_id;
  response.controller_id = services.config.node_id;
  response.brokers.push_back({.broker_id = services.config.node_id,
                              .host = context.session().listener->advertised_host,
                              .port = context.session().listener->advertised_port});
  if (request.include_cluster_authorized_operations) {
    response.cluster_authorized_operations = kAllClusterOperations;
  }
  context.Reply(response);
}

}  // namespace gyre
