// What one connection is doing, as a copy that anyone may keep.
//
// Threads: a value.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_INFO_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_INFO_H_

#include <cstdint>
#include <string>

namespace gyre {

struct ConnectionInfo {
  std::string peer;  // "127.0.0.1:50312"
  std::string listener;
  std::string principal;
  std::string client_id;  // of its last request; may be cut
  std::string client_software_name;
  std::string client_software_version;
  // The first that holds: "closing", "half-closed", "throttled", "sending", "waiting for
  // memory", "waiting for a handler", "in flight", "receiving", "idle".
  const char* state = "";
  int32_t processor = 0;
  int32_t in_flight = 0;
  int64_t age_ms = 0;
  int64_t idle_ms = 0;  // since bytes last moved
  int64_t requests = 0;
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_INFO_H_
