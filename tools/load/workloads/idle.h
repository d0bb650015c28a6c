// idle: connections that are opened and kept, for what they cost on both sides. One that
// the server closes is lost.
#ifndef GYRE_TOOLS_LOAD_WORKLOADS_IDLE_H_
#define GYRE_TOOLS_LOAD_WORKLOADS_IDLE_H_

#include <cstddef>
#include <cstdint>

#include "tools/load/lost_connections.h"
#include "tools/load/workload.h"

namespace gyre::load {

class IdleLoad final : public ThreadLoad {
 public:
  IdleLoad(Part& part, int32_t thread)
      : part_(part),
        wanted_count_(static_cast<size_t>(part.Share(part.options.connections, thread))) {}

  absl::Status Open(Connector& connector) override;
  bool ready() const override { return open_count_ == wanted_count_; }
  absl::Status failure() const override { return failure_; }
  void Start(Recorder& recorder) override { recorder_ = &recorder; }
  int64_t Turn(int64_t) override { return recorder_->window().end_ns; }
  bool Done(int64_t now_ns) const override { return now_ns >= recorder_->window().end_ns; }
  void Collect(PartResult* result) override;

  void OnConnected(ConnectionHandle connection) override;
  void OnFrame(ConnectionHandle, absl::string_view) override {}
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override;

 private:
  absl::Status ConnectNext();

  Part& part_;
  const size_t wanted_count_;
  Connector* connector_ = nullptr;
  Recorder* recorder_ = nullptr;
  size_t opened_count_ = 0;
  size_t open_count_ = 0;
  LostConnections lost_connections_;
  absl::Status failure_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_WORKLOADS_IDLE_H_
