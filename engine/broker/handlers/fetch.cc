#include "engine/broker/handlers/fetch.h"

#include "engine/base/ref_ptr.h"
#include "engine/broker/fetch_operation.h"
#include "proto/fetch.h"

namespace gyre {

void HandleFetch(const BrokerServices& services, RequestContext context) {
  proto::FetchRequest request;
  if (!context.Decode(request)) return;
  // Epochs 0 and -1 ask for everything named, and the id 0 that comes back says
  // that there is no session to go on with. Only an increment to a session
  // cannot be understood.
  if (request.session_epoch > 0) {
    proto::FetchResponse response;
    response.error_code = ErrorCode::kFetchSessionIdNotFound;
    return context.Reply(response);
  }
  MakeRef<FetchOperation>(services, context, request)->Start();
}

}  // namespace gyre
