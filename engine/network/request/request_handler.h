// What an engine user implements: the protocol's side of a request.
//
// Threads: Start is called on handler threads (--dispatch=pool), several at
// once for different connections, or on the processor (--dispatch=inline) when
// RunsInline() allows it. Requests of one connection start in order of arrival.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_H_
#define GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_H_

#include "engine/network/request/request.h"

namespace gyre {

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;

  // Leads to an answer, now or, by whoever has `request` then, later. Returns when the
  // next request of the same connection may start. A malformed frame is answered or
  // closed on, never a CHECK.
  virtual void Start(RequestPtr request) = 0;

  // True when Start(request) neither blocks nor does file I/O, so that it may
  // run on the processor.
  virtual bool RunsInline(const Request& request) const { return false; }

  // Which of the request channel's lanes it waits in (see SocketServerOptions::lanes);
  // one that there is not means lane 0. On the processor, like the next one: a look at
  // the frame's first bytes.
  virtual int LaneOf(const Request& request) const { return 0; }

  // The API's key, for those who watch what a handler is at before Start has told it;
  // -1: unknown. On the thread that starts it; a look at the frame's first bytes.
  virtual int16_t ApiOf(const Request& request) const { return -1; }

  // True when it must neither overtake nor be overtaken: it starts when every earlier
  // request of its connection is answered, and the next one starts when it is. Asked
  // only where several may be in flight.
  virtual bool RunsAlone(const Request& request) const { return false; }
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_REQUEST_HANDLER_H_
