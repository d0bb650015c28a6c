// Who is on the other end of a connection, as far as it is known. One per
// connection; handlers read where it came from and who it is. What the client says
// of itself (software, id) comes with its requests and is the processor's.
//
// It moves with its connection, while no request of it is in flight. It is small, and
// making one allocates nothing: there may be many, and they come and go.
//
// Threads: written by the processor before the first request; the client's software
// and id the processor alone.
// `gone`: raised by the processor, read by anyone who holds a request.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_SESSION_H_
#define GYRE_ENGINE_NETWORK_REQUEST_SESSION_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/short_text.h"
#include "engine/network/endpoint.h"
#include "engine/network/listener.h"

namespace gyre {

// What a request calls its sender, in front of metrics and log lines; may be cut.
using ClientId = ShortText<39>;

struct ClientSoftware {
  std::string name;
  std::string version;
};

struct Session {
  // Nobody authenticates.
  static constexpr absl::string_view kAnonymous = "User:ANONYMOUS";
  static constexpr absl::string_view kUnknown = "unknown";

  const Listener* listener = nullptr;  // outlives it
  PeerAddress peer;
  absl::string_view principal() const { return kAnonymous; }
  absl::string_view software_name() const { return software ? software->name : kUnknown; }
  absl::string_view software_version() const { return software ? software->version : kUnknown; }

  // The connection is closed: what still waits to be answered waits for nobody.
  struct Flag : std::atomic<bool> {
    Flag() : std::atomic<bool>(false) {}
    Flag& operator=(Flag&& other) noexcept {
      store(other.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return *this;
    }
  };
  Flag gone;

  // The processor's own.
  ClientId client_id;  // of the last request that was answered
  // Made by the handler that was told; null: it was not.
  std::unique_ptr<const ClientSoftware> software;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_SESSION_H_
