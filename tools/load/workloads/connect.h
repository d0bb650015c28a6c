// connect: churn. An operation connects, sends one small request, waits for its answer
// and closes. The request is an ApiVersions of Kafka's, which an echo server answers,
// too: by itself.
#ifndef GYRE_TOOLS_LOAD_WORKLOADS_CONNECT_H_
#define GYRE_TOOLS_LOAD_WORKLOADS_CONNECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/load/workload.h"

namespace gyre::load {

class ConnectLoad final : public ThreadLoad {
 public:
  ConnectLoad(Part& part, int32_t thread);

  absl::Status Open(Connector& connector) override;
  bool ready() const override { return probed_; }
  absl::Status failure() const override;
  void Start(Recorder& recorder) override;
  int64_t Turn(int64_t now_ns) override;
  bool Done(int64_t now_ns) const override;
  void Collect(PartResult* result) override;

  void OnConnected(ConnectionHandle connection) override;
  void OnFrame(ConnectionHandle connection, absl::string_view payload) override;
  void OnClosed(ConnectionHandle connection, const absl::Status& why) override;

 private:
  struct Attempt {
    ConnectionHandle connection;
    bool under_way = false;
    int64_t intended_ns = 0;
    int64_t started_ns = 0;
    int32_t correlation_id = 0;
  };

  absl::Status Begin(int64_t intended_ns, int64_t now_ns);
  Attempt* AttemptOf(ConnectionHandle connection);
  std::string Request(int32_t correlation_id) const;
  void End(Attempt& attempt, bool close);

  Part& part_;
  const int32_t thread_;
  const int32_t at_once_;
  Connector* connector_ = nullptr;
  Recorder* recorder_ = nullptr;
  Schedule schedule_;              // from Start on
  std::vector<Attempt> attempts_;  // by connector slot
  int32_t under_way_ = 0;
  int32_t next_correlation_id_ = 0x67790000;
  int64_t next_timeout_check_ns_ = 0;
  int64_t opened_ns_ = 0;
  bool probed_ = false;  // one connection worked before the clock started
  absl::Status failure_;
  int64_t answered_ = 0;
  int64_t corrupted_ = 0;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_WORKLOADS_CONNECT_H_
