// What an engine user implements: the protocol's side of a request.
//
// Threads: Start is called on handler threads (--dispatch=pool), several at
// once for different connections, or on the processor (--dispatch=inline) when
// RunsInline() allows it. Requests of one connection start in order of arrival.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_HANDLER_H_
#define GYRE_ENGINE_NETWORK_REQUEST_HANDLER_H_

#include "engine/network/request.h"

namespace gyre {

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;

  // Leads to exactly one of Request's Reply…/CloseConnection, now or later.
  // Returns when the next request of the same connection may start. A malformed
  // frame is answered or closed on, never a CHECK.
  virtual void Start(Request* request) = 0;

  // True when Start(request) neither blocks nor does file I/O, so that it may
  // run on the processor.
  virtual bool RunsInline(const Request& request) const { return false; }
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_HANDLER_H_
