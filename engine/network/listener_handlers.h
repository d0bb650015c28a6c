// Which handler serves which listener. The data plane's handler threads serve
// several listeners, so the one they are given looks up whose request it is;
// where no listener has a handler of its own, that is the server's handler itself.
//
// Threads: immutable once built.
// Borrows: the handlers.
#ifndef GYRE_ENGINE_NETWORK_LISTENER_HANDLERS_H_
#define GYRE_ENGINE_NETWORK_LISTENER_HANDLERS_H_

#include <cstddef>
#include <vector>

#include "engine/network/request/request_handler.h"
#include "engine/network/server_options.h"

namespace gyre {

class ListenerHandlers final : private RequestHandler {
 public:
  ListenerHandlers(const std::vector<ListenerOptions>& listeners, RequestHandler& server_handler) {
    for (const ListenerOptions& listener : listeners) {
      handlers_.push_back(listener.handler != nullptr ? listener.handler : &server_handler);
      if (handlers_.back() != &server_handler) for_data_plane_ = this;
    }
    if (for_data_plane_ == nullptr) for_data_plane_ = &server_handler;
  }
  ListenerHandlers(const ListenerHandlers&) = delete;
  ListenerHandlers& operator=(const ListenerHandlers&) = delete;

  RequestHandler& Of(size_t listener_index) const { return *handlers_[listener_index]; }
  RequestHandler& ForDataPlane() { return *for_data_plane_; }

 private:
  void Start(RequestPtr request) override {
    RequestHandler& handler = Of(static_cast<size_t>(request->session().listener->index));
    handler.Start(std::move(request));
  }

  int16_t ApiOf(const Request& request) const override {
    return Of(static_cast<size_t>(request.session().listener->index)).ApiOf(request);
  }

  std::vector<RequestHandler*> handlers_;
  RequestHandler* for_data_plane_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_LISTENER_HANDLERS_H_
