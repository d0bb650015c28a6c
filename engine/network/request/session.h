// Who is on the other end of a connection, as far as it is known. One per
// connection; handlers read where it came from and who it is. What the client says
// of itself (software, id) comes with its requests and is the processor's.
//
// It moves with its connection, while no request of it is in flight.
//
// Threads: written by the processor before the first request; the client's software
// and id the processor alone.
// `gone`: raised by the processor, read by anyone who holds a request.
#ifndef GYRE_ENGINE_NETWORK_REQUEST_SESSION_H_
#define GYRE_ENGINE_NETWORK_REQUEST_SESSION_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "engine/base/short_text.h"

namespace gyre {

// What a request calls its sender, in front of metrics and log lines; may be cut.
using ClientId = ShortText<39>;

struct ClientSoftware {
  std::string name;
  std::string version;
};

struct Session {
  enum class State : uint8_t { kReady };

  State state = State::kReady;
  int listener_index = 0;
  std::string listener_name;    // "PLAINTEXT"
  std::string advertised_host;  // where clients of this listener are sent
  int32_t advertised_port = 0;
  std::string peer;  // "127.0.0.1:50312"
  std::string principal = "User:ANONYMOUS";
  // The processor's own.
  std::string client_software_name = "unknown";
  std::string client_software_version = "unknown";
  ClientId client_id;  // of the last request that was answered

  void SetSoftware(const ClientSoftware& software) {
    client_software_name = software.name;
    client_software_version = software.version;
  }
  // The connection is closed: what still waits to be answered waits for nobody.
  struct Flag : std::atomic<bool> {
    Flag() : std::atomic<bool>(false) {}
    Flag& operator=(Flag&& other) noexcept {
      store(other.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return *this;
    }
  };
  Flag gone;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_REQUEST_SESSION_H_
