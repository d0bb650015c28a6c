// ListOffsets (2): the first and last offset of a partition, or the first one of a
// time.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_LIST_OFFSETS_H_
#define GYRE_ENGINE_BROKER_HANDLERS_LIST_OFFSETS_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleListOffsets(const BrokerServices& services, RequestContext context);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_LIST_OFFSETS_H_
