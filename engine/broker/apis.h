// Reads a request's header and sends it to the handler of its api.
//
// A request that cannot be served is not answered with an error: clients would
// read the answer with the wrong schema. The connection is closed, with one
// exception that is the protocol's own: ApiVersions of an unknown version.
//
// Threads: any.
// Borrows: the services and the allocator; they outlive every request.
#ifndef GYRE_ENGINE_BROKER_APIS_H_
#define GYRE_ENGINE_BROKER_APIS_H_

#include "engine/broker/broker_services.h"
#include "engine/broker/request_context.h"
#include "engine/network/request/request_handler.h"

namespace gyre {

class ApiRequestHandler : public RequestHandler {
 public:
  ApiRequestHandler(const BrokerServices& services, BufferAllocator& allocator)
      : services_(services), allocator_(allocator) {}

  void Start(RequestPtr request) override;
  // By the api's row in served_apis.h; a frame that is none is closed on, at once.
  bool RunsInline(const Request& request) const override;
  int LaneOf(const Request& request) const override;
  int16_t ApiOf(const Request& request) const override;
  bool RunsAlone(const Request& request) const override;

 private:
  const BrokerServices& services_;
  BufferAllocator& allocator_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_APIS_H_
