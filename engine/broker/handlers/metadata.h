// Metadata (3): the brokers and topics; creates topics that were asked for by
// name where that is allowed.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_METADATA_H_
#define GYRE_ENGINE_BROKER_HANDLERS_METADATA_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleMetadata(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_METADATA_H_
