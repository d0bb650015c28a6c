#include "engine/broker/handlers/fetch.h"

#include "engine/base/ref_ptr.h"
#include "engine/broker/fetch_operation.h"
#include "proto/fetch.h"

namespace gyre {

namespace {

constexpr int32_t kNewSession = 0;
constexpr int32_t kNoSession = -1;

}  // namespace

void HandleFetch(const BrokerServices& services, RequestContext context) {
  proto::FetchRequest request;
  if (!context.Decode(request)) return;
  // Epochs 0 and -1 ask for everything named, and the id 0 that comes back says
  // that there is no session to go on with. Any other is an increment to a
  // session, which cannot be understood.
  if (request.session_epoch != kNewSession && request.session_epoch != kNoSession) {
    proto::FetchResponse response;
    response.error_code = ErrorCode::kFetchSessionIdNotFound;
    return context.Reply(response);
  }
  MakeRef<FetchOperation>(services, std::move(context), request)->Start();
}

}  // namespace gyre
