// ApiVersions (18): what is served, and which features the cluster has agreed
// on. Normally a client's first request.
#ifndef GYRE_ENGINE_BROKER_HANDLERS_API_VERSIONS_H_
#define GYRE_ENGINE_BROKER_HANDLERS_API_VERSIONS_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"

namespace gyre {

void HandleApiVersions(const BrokerServices& services, RequestContext context);

// The answer to a version that is not served: in version 0, with error 35 and
// ApiVersions' own range, so that the client can ask again. The body of such a
// request is never looked at.
void ReplyUnsupportedApiVersions(RequestContext context);

// [a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?
bool IsValidClientSoftware(absl::string_view text);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_HANDLERS_API_VERSIONS_H_
