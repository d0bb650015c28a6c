// What the connections of a listener have in common; each has a pointer to it.
//
// Threads: immutable once the server runs.
#ifndef GYRE_ENGINE_NETWORK_LISTENER_H_
#define GYRE_ENGINE_NETWORK_LISTENER_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "engine/network/endpoint.h"

namespace gyre {

class FrameDecoder;

// Outlives the connections that came through it.
struct Listener {
  int index = 0;
  Endpoint bound;
  // Where its clients are sent.
  std::string advertised_host;
  int32_t advertised_port = 0;
  const FrameDecoder* frame_decoder = nullptr;
  // The largest payload with its framing, as it is now; null: whatever the decoder says.
  const std::atomic<int64_t>* max_frame_bytes = nullptr;
  // As in ListenerOptions.
  bool sheds_when_full = false;
  std::string max_connections_name;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_LISTENER_H_
