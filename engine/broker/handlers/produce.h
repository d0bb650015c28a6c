// Produce (0): one batch per partition into the log; answered when acks says so.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_PRODUCE_H_
#define GYRE_ENGINE_BROKER_HANDLERS_PRODUCE_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleProduce(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_PRODUCE_H_
