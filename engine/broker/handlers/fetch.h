// Fetch (1): records as ranges of segment files, waiting for min_bytes up to
// max_wait_ms. No sessions: the id is always 0, which every client copes with.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_FETCH_H_
#define GYRE_ENGINE_BROKER_HANDLERS_FETCH_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleFetch(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_FETCH_H_
