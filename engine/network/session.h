// Who is on the other end of a connection, as far as it is known. One per
// connection; handlers read it, and the handler that runs the connection's
// only unordered request (ApiVersions, SASL) may write the client's software.
//
// Threads: handoff; written only while no other request of the connection runs.
// `gone`: raised by the processor, read by anyone who holds a request.
#ifndef GYRE_ENGINE_NETWORK_SESSION_H_
#define GYRE_ENGINE_NETWORK_SESSION_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace gyre {

struct Session {
  enum class State : uint8_t { kReady };

  State state = State::kReady;
  int listener_index = 0;
  std::string listener_name;    // "PLAINTEXT"
  std::string advertised_host;  // where clients of this listener are sent
  int32_t advertised_port = 0;
  std::string peer;  // "127.0.0.1:50312"
  std::string principal = "User:ANONYMOUS";
  std::string client_software_name = "unknown";
  std::string client_software_version = "unknown";
  // The connection is closed: what still waits to be answered waits for nobody.
  std::atomic<bool> gone{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_SESSION_H_
