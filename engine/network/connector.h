// Outgoing connections on one ring: connect with a deadline, send, receive, frames cut
// by the same decoder as a server's. One thread drives thousands of them.
//
// Bytes arrive by (multishot) receives into provided buffers; a frame that lies whole in
// one is handed over in place, others are put together first, and memory grows with the
// bytes that came, not with the size a peer announced. What is sent is queued and leaves
// gathered, one send under way per connection.
//
// Threads: the one that called Attach(), except through ring().Wake().
// Owns: its sockets and receive buffers.  Borrows: ring, clock, decoder, events.
// Invariant: each Connect that succeeded ends in one OnClosed or in one Close; a slot is
// used again only with nothing in flight.
#ifndef GYRE_ENGINE_NETWORK_CONNECTOR_H_
#define GYRE_ENGINE_NETWORK_CONNECTOR_H_

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/network/endpoint.h"
#include "engine/network/frame_decoder.h"
#include "engine/uring/ring.h"

namespace gyre {

struct ConnectionHandle {
  uint32_t slot = UINT32_MAX;
  uint32_t generation = 0;

  friend constexpr bool operator==(const ConnectionHandle&, const ConnectionHandle&) = default;
};

// What happens to connections. Each call may connect, send and close, also the
// connection that it is about.
class ConnectorEvents {
 public:
  virtual void OnConnected(ConnectionHandle connection) = 0;
  // One frame's payload, valid during the call.
  virtual void OnFrame(ConnectionHandle connection, absl::string_view payload) = 0;
  // It is gone: UNAVAILABLE (refused, closed, reset), DEADLINE_EXCEEDED (the connect), or
  // DATA_LOSS (what came is no frame). The message begins with the peer's address.
  virtual void OnClosed(ConnectionHandle connection, const absl::Status& why) = 0;

 protected:
  ~ConnectorEvents() = default;
};

struct ConnectorOptions {
  int64_t connect_timeout_ns = 10'000'000'000;
  uint32_t receive_buffer_bytes = 32 << 10;
  uint32_t receive_buffer_count = 256;  // a power of two
};

class Connector {
 public:
  Connector(uring::Ring& ring, const Clock& clock, const FrameDecoder& decoder,
            ConnectorEvents& events, const ConnectorOptions& options);
  // On the owner's thread: closes what is open and waits until the kernel has let go.
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  // Attaches the ring to this thread and provides the receive buffers.
  absl::Status Attach();

  // Starts connecting. RESOURCE_EXHAUSTED: no descriptor left; nothing was started.
  absl::StatusOr<ConnectionHandle> Connect(const SocketAddress& peer);
  // Queues bytes, also before OnConnected. False: the connection is gone.
  bool Send(ConnectionHandle connection, std::string bytes);
  // Queued and not yet taken by the kernel.
  size_t unsent_bytes(ConnectionHandle connection) const;
  // Drops what is queued and closes without an OnClosed; with `reset`, by a RST, which
  // leaves no TIME_WAIT behind. Nothing happens to a connection that is gone.
  void Close(ConnectionHandle connection, bool reset = false);

  // Submits, waits up to `wait_ns` (0: not; < 0: until something happens) and delivers
  // what came. Returns the number of completions.
  size_t RunOnce(int64_t wait_ns);

  size_t connection_count() const { return open_count_; }
  uring::Ring& ring() { return ring_; }

 private:
  enum class State : uint8_t { kFree, kConnecting, kOpen, kClosing };
  struct Slot {
    uint32_t generation = 0;
    int fd = -1;
    State state = State::kFree;
    bool reset = false;
    bool sending = false;          // a send is under way
    uint32_t in_flight_count = 0;  // operations that the kernel holds
    SocketAddress peer;
    std::string partial;             // the start of a frame
    size_t frame_bytes = 0;          // of the whole frame in `partial`; 0: not known yet
    std::vector<std::string> queue;  // to send after `batch`
    std::vector<std::string> batch;  // what the send under way points to
    size_t batch_sent_bytes = 0;
    size_t unsent_bytes = 0;
    std::vector<iovec> parts;
    msghdr message = {};
  };
  struct Deadline {
    ConnectionHandle connection;
    int64_t at_ns;
  };

  Slot* Find(ConnectionHandle connection);
  const Slot* Find(ConnectionHandle connection) const;
  uring::Token TokenFor(uring::OpKind kind, const Slot& slot, uint32_t index) const;
  void ArmReceive(Slot& slot, uint32_t index);
  void StartSend(Slot& slot, uint32_t index);
  void Dispatch(const uring::Completion& completion);
  void OnConnect(Slot& slot, uint32_t index, IoResult result);
  void OnReceive(Slot& slot, uint32_t index, const uring::Completion& completion);
  void OnSend(Slot& slot, uint32_t index, IoResult result);
  // Cuts frames from what came. False: the connection was closed meanwhile.
  bool Deliver(uint32_t index, absl::string_view bytes);
  // Adds to slot.partial until it is a frame, which is delivered. `bytes` moves on.
  bool Assemble(uint32_t index, absl::string_view* bytes);
  // Tells the events, then closes.
  void Fail(uint32_t index, const absl::Status& why);
  void BeginClose(Slot& slot, uint32_t index);
  void FreeIfQuiet(Slot& slot, uint32_t index);
  void ExpireConnects(int64_t now_ns);

  uring::Ring& ring_;
  const Clock& clock_;
  const FrameDecoder& decoder_;
  ConnectorEvents& events_;
  const ConnectorOptions options_;
  std::unique_ptr<char[]> buffers_;
  std::vector<std::unique_ptr<Slot>> slots_;  // stable: the kernel reads `message`
  std::vector<uint32_t> free_slots_;
  // In the order of their deadlines: the timeout is one for all.
  std::deque<Deadline> connect_deadlines_;
  std::vector<uring::Completion> completions_;
  size_t open_count_ = 0;  // slots that are not free
  bool attached_ = false;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTOR_H_
