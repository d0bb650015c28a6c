// DescribeCluster (60): the brokers and who takes admin requests.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_DESCRIBE_CLUSTER_H_
#define GYRE_ENGINE_BROKER_HANDLERS_DESCRIBE_CLUSTER_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleDescribeCluster(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_DESCRIBE_CLUSTER_H_
