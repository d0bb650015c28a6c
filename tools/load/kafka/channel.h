// A connection to one broker that survives it: requests in a pipeline, answers matched by
// correlation id, connecting again with a growing pause. What was under way when it broke
// is handed back.
//
// Threads: its connector's owner.
// Borrows: the client (its connector), the owner.
#ifndef GYRE_TOOLS_LOAD_KAFKA_CHANNEL_H_
#define GYRE_TOOLS_LOAD_KAFKA_CHANNEL_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/network/connector.h"
#include "proto/frame.h"
#include "tools/load/kafka/cluster.h"
#include "tools/load/lost_connections.h"

namespace gyre::load {

class Channel;

class ChannelEvents {
 public:
  // `reader` is at the response's body. False: it is malformed; the channel breaks.
  virtual bool OnResponse(Channel& channel, uint64_t tag, wire::Reader& reader) = 0;
  // It broke (and will connect again when asked to): the tags of what was under way, in
  // the order of sending.
  virtual void OnBroken(Channel& channel, const absl::Status& why,
                        const std::vector<uint64_t>& tags) = 0;

 protected:
  ~ChannelEvents() = default;
};

// Tells channels of their connections.
class ChannelRouter : public ConnectorEvents {
 public:
  void Bind(ConnectionHandle connection, Channel* channel);

  void OnConnected(ConnectionHandle connection) override;
  void OnFrame(ConnectionHandle connection, absl::string_view payload) override;
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override;

 private:
  Channel* Find(ConnectionHandle connection) const;

  std::vector<Channel*> by_slot_;
};

class Channel {
 public:
  Channel(Connector& connector, ChannelRouter& router, const Clock& clock, int64_t timeout_ns,
          const SocketAddress& peer, ChannelEvents& events)
      : connector_(connector),
        router_(router),
        clock_(clock),
        timeout_ns_(timeout_ns),
        peer_(peer),
        events_(events) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Connects if it is down and its pause is over; breaks it if an answer is overdue.
  void Turn(int64_t now_ns);
  bool up() const { return state_ == State::kUp; }
  size_t in_flight_count() const { return in_flight_.size(); }
  size_t unsent_bytes() const { return connector_.unsent_bytes(connection_); }
  const SocketAddress& peer() const { return peer_; }
  const LostConnections& lost_connections() const { return lost_connections_; }

  // Only while up. Without `expects_answer` (Produce with acks=0) nothing comes back.
  template <typename Request>
  void Send(const Request& request, int16_t version, uint64_t tag, bool expects_answer = true) {
    std::string bytes(proto::RequestSize(request, kClientId, version), '\0');
    wire::Writer writer(bytes.data(), bytes.size());
    proto::EncodeRequest(writer, request, kClientId, next_correlation_id_, version);
    if (expects_answer) {
      in_flight_.push_back({next_correlation_id_, Request::kApiKey, version, tag, clock_.NowNs()});
    }
    ++next_correlation_id_;
    connector_.Send(connection_, std::move(bytes));
  }

  // --- for the router.
  bool is(ConnectionHandle connection) const {
    return state_ != State::kDown && connection_ == connection;
  }
  void OnConnected();
  void OnFrame(absl::string_view payload);
  void OnClosed(const absl::Status& why);

 private:
  enum class State : uint8_t { kDown, kConnecting, kUp };
  struct Sent {
    int32_t correlation_id;
    ApiKey api;
    int16_t version;
    uint64_t tag;
    int64_t at_ns;
  };

  // Closes from our side and tells the owner.
  void Break(const absl::Status& why);

  Connector& connector_;
  ChannelRouter& router_;
  const Clock& clock_;
  const int64_t timeout_ns_;
  const SocketAddress peer_;
  ChannelEvents& events_;
  State state_ = State::kDown;
  ConnectionHandle connection_;
  std::deque<Sent> in_flight_;
  int32_t next_correlation_id_ = 1;
  int64_t retry_at_ns_ = 0;
  int64_t pause_ns_ = 0;
  LostConnections lost_connections_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_CHANNEL_H_
