// DeleteTopics (20): topics by name, or (from version 6 on) by id.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_DELETE_TOPICS_H_
#define GYRE_ENGINE_BROKER_HANDLERS_DELETE_TOPICS_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleDeleteTopics(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_DELETE_TOPICS_H_
