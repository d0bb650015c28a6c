// The client's end of one simulated connection: whole frames out, whole frames
// in, one request at a time.
//
// Threads: one.  Borrows: the network.
#ifndef GYRE_TESTS_SIMULATION_SIM_CLIENT_H_
#define GYRE_TESTS_SIMULATION_SIM_CLIENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "engine/base/endian.h"
#include "proto/frame.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"
#include "tests/simulation/sim_network.h"

namespace gyre::sim {

class SimClient {
 public:
  enum class Event {
    kIdle,      // nothing could be done
    kProgress,  // bytes moved
    kAnswer,    // answer() is the response without its size prefix
    kLost,      // the connection is gone; connect again
  };

  SimClient(SimNetwork& network, uint16_t port) : network_(network), port_(port) {}

  bool connected() const { return fd_ >= 0; }
  // False when nobody listens.
  bool Connect() {
    const int fd = network_.Connect(port_);
    if (fd >= 0) fd_ = fd;
    return fd >= 0;
  }
  void Close() {
    if (fd_ >= 0) network_.Close(fd_);
    fd_ = -1;
    outgoing_.clear();
    incoming_.clear();
    waiting_ = false;
  }

  bool waiting() const { return waiting_; }
  template <typename Message>
  void Ask(const Message& request, int16_t version) {
    outgoing_.resize(proto::RequestSize(request, "sim", version));
    wire::Writer writer(outgoing_.data(), outgoing_.size());
    proto::EncodeRequest(writer, request, "sim", ++correlation_id_, version);
    waiting_ = true;
  }

  // Moves bytes; to be called while waiting().
  Event Step() {
    bool moved = false;
    if (!outgoing_.empty()) {
      const IoResult sent = network_.Send(fd_, outgoing_);
      if (!sent.ok() && !sent.would_block()) return Lose();
      outgoing_.erase(0, static_cast<size_t>(sent.bytes()));
      moved = sent.bytes() > 0;
    }
    char chunk[512];
    const IoResult received = network_.Receive(fd_, chunk, sizeof(chunk));
    if (received.would_block()) return moved ? Event::kProgress : Event::kIdle;
    if (received.bytes() == 0) return Lose();
    incoming_.append(chunk, static_cast<size_t>(received.bytes()));
    if (incoming_.size() < 4) return Event::kProgress;
    const auto size = static_cast<size_t>(LoadBigEndian<int32_t>(incoming_.data()));
    if (incoming_.size() < 4 + size) return Event::kProgress;
    answer_ = incoming_.substr(4, size);
    incoming_.erase(0, 4 + size);
    waiting_ = false;
    return Event::kAnswer;
  }

  // False when the answer is malformed or not to the last request. What it holds
  // views the answer.
  template <typename Message>
  bool Decode(int16_t version, Message* response) const {
    wire::Reader reader(answer_);
    proto::ResponseHeader header;
    return proto::DecodeResponseHeader(reader, Message::kApiKey, version, header) &&
           header.correlation_id == correlation_id_ && response->Decode(reader, version) &&
           reader.remaining() == 0;
  }

 private:
  Event Lose() {
    Close();
    return Event::kLost;
  }

  SimNetwork& network_;
  const uint16_t port_;
  int fd_ = -1;
  int32_t correlation_id_ = 0;
  bool waiting_ = false;
  std::string outgoing_;
  std::string incoming_;
  std::string answer_;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_CLIENT_H_
