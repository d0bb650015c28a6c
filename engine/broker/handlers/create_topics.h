// CreateTopics (19): new topics, each with its own outcome.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_CREATE_TOPICS_H_
#define GYRE_ENGINE_BROKER_HANDLERS_CREATE_TOPICS_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleCreateTopics(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_CREATE_TOPICS_H_
