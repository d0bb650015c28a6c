// echo: frames to a server that sends each back. Every answer is compared with what was
// asked, in order, per connection.
#ifndef GYRE_TOOLS_LOAD_WORKLOADS_ECHO_H_
#define GYRE_TOOLS_LOAD_WORKLOADS_ECHO_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tools/load/lost_connections.h"
#include "tools/load/payload.h"
#include "tools/load/workload.h"

namespace gyre::load {

class EchoLoad final : public ThreadLoad {
 public:
  EchoLoad(Part& part, int32_t thread);

  absl::Status Open(Connector& connector) override;
  bool ready() const override { return open_count_ == streams_.size(); }
  absl::Status failure() const override { return failure_; }
  void Start(Recorder& recorder) override;
  int64_t Turn(int64_t now_ns) override;
  bool Done(int64_t now_ns) const override;
  void Collect(PartResult* result) override;

  void OnConnected(ConnectionHandle connection) override;
  void OnFrame(ConnectionHandle connection, absl::string_view payload) override;
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override;

 private:
  struct Asked {
    int64_t intended_ns;
    int64_t started_ns;
    uint32_t crc;
    bool answered = false;
  };
  struct Stream {
    uint32_t id = 0;
    ConnectionHandle connection;
    bool open = false;
    bool connecting = false;
    bool queued = false;  // in with_room_
    int64_t next_number = 0;
    int64_t outstanding = 0;
    std::deque<Asked> asked;  // the last is next_number - 1
    StreamCheck check;
  };

  absl::Status Connect(uint32_t index);
  Stream* StreamOf(ConnectionHandle connection);
  void OfferRoom(Stream& stream);
  void Ask(Stream& stream, int64_t intended_ns, int64_t now_ns);
  // Which number this answers; nullopt: it is none of ours.
  std::optional<int64_t> NumberOf(const Stream& stream, absl::string_view payload) const;
  void SettleStream(Stream& stream);

  Part& part_;
  const int32_t thread_;
  PayloadSource source_;
  Connector* connector_ = nullptr;
  Recorder* recorder_ = nullptr;
  Schedule schedule_;  // from Start on
  std::vector<Stream> streams_;
  std::vector<uint32_t> stream_of_slot_;
  std::deque<uint32_t> with_room_;
  size_t opened_count_ = 0;  // connects begun
  size_t open_count_ = 0;
  int64_t outstanding_ = 0;
  int64_t next_timeout_check_ns_ = 0;
  absl::Status failure_;
  std::string payload_;
  CheckCounts counts_;
  int64_t unanswered_ = 0;
  LostConnections lost_connections_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_WORKLOADS_ECHO_H_
