// FindCoordinator (10): there are no groups yet, so the answer is always
// COORDINATOR_NOT_AVAILABLE, which clients take as "try later". It is served
// because librdkafka does not compress with lz4 for a broker without it.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_FIND_COORDINATOR_H_
#define GYRE_ENGINE_BROKER_HANDLERS_FIND_COORDINATOR_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleFindCoordinator(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_FIND_COORDINATOR_H_
