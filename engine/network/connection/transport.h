// Between the socket and the frame decoder: what turns wire bytes into plain bytes
// and back. PlaintextTransport passes both through untouched; a TLS transport will
// decrypt in between, ask for file slices as buffers, and refuse direct receives.
//
// Threads: owner (the connection's processor).
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_TRANSPORT_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_TRANSPORT_H_

#include <utility>

#include "engine/memory/buffer.h"
#include "engine/network/request/network_send.h"

namespace gyre {

class Transport {
 public:
  virtual ~Transport() = default;

  // Plain bytes out of what came off the socket, in order; may be empty while a
  // record is incomplete. False: the peer broke the protocol, close.
  virtual bool Unwrap(Buffer wire, Buffer* plain) = 0;
  // Makes a response ready for the socket, in place. False: close.
  virtual bool Wrap(NetworkSend* send) = 0;

  // Wire bytes are plain bytes: a large frame may be received straight into its
  // place, and a file range may go to the socket inside the kernel.
  virtual bool passes_through() const = 0;
};

class PlaintextTransport final : public Transport {
 public:
  bool Unwrap(Buffer wire, Buffer* plain) override {
    *plain = std::move(wire);
    return true;
  }
  bool Wrap(NetworkSend*) override { return true; }
  bool passes_through() const override { return true; }
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_TRANSPORT_H_
