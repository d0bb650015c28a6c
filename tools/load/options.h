// What a run is asked to do: the flags of gyre_load, which are also the words of a
// scenario file. One table names, groups, explains and reads them.
//
// Threads: immutable values.
#ifndef GYRE_TOOLS_LOAD_OPTIONS_H_
#define GYRE_TOOLS_LOAD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/record/record_batch.h"
#include "tools/load/payload.h"
#include "tools/load/schedule.h"

namespace gyre::load {

enum class Workload : uint8_t {
  kNone,
  kEcho,
  kConnect,
  kIdle,
  kProduce,
  kConsume,
  kEndToEnd,
  kMixed,
};
absl::string_view WorkloadName(Workload workload);
inline bool IsKafka(Workload workload) {
  return workload == Workload::kProduce || workload == Workload::kConsume ||
         workload == Workload::kEndToEnd;
}

enum class Idempotence : uint8_t { kAuto, kOn, kOff };
enum class AtEnd : uint8_t { kStop, kWait, kRewind };

struct Options {
  std::string name;  // of a part of a scenario; else the workload's
  Workload workload = Workload::kNone;
  std::string scenario;
  std::vector<std::pair<std::string, uint16_t>> brokers;  // host, port

  double rate = 0;  // per second; 0: closed loop
  Arrivals arrivals = Arrivals::kConstant;
  int64_t duration_ns = 10'000'000'000;
  int64_t warmup_ns = 2'000'000'000;
  int64_t drain_ns = 30'000'000'000;
  int64_t timeout_ns = 10'000'000'000;
  int32_t threads = 1;
  int32_t connections = 1;
  int32_t pipeline = 0;  // 0: the workload's own: 1 for echo, 5 for Kafka
  uint64_t seed = 1;

  SizeDistribution record_size{1024};
  std::string payload_file;
  int64_t keys = 0;

  std::string topic = "gyre_load";
  int32_t partitions = 6;
  int32_t replication_factor = 1;
  bool create_topic = true;
  int16_t acks = -1;
  Codec compression = Codec::kNone;
  Idempotence idempotence = Idempotence::kAuto;
  int64_t batch_bytes = 16384;
  int32_t batch_records = 0;  // 0: by bytes alone
  int64_t linger_ns = 0;
  int64_t buffer_bytes = 32 << 20;

  bool from_earliest = true;
  AtEnd at_end = AtEnd::kStop;
  int32_t fetch_max_bytes = 8 << 20;
  int32_t fetch_partition_bytes = 1 << 20;
  int32_t fetch_min_bytes = 1;
  int32_t fetch_max_wait_ms = 500;

  bool verify = true;
  bool allow_reconnects = false;
  double min_rate_percent = 99;

  bool round_trip = true;
  bool reset = false;
  int32_t server_pid = 0;

  bool find_max = false;
  double p99_ms = 0;
  int64_t step_ns = 5'000'000'000;

  std::string json;
  std::string report;
  std::string metrics_url;
  std::string progress = "auto";
  std::vector<std::string> compare;
  std::string uring_disable;
  bool help = false;

  // As given, for the report: name and value.
  std::vector<std::pair<std::string, std::string>> given;

  int32_t depth() const { return pipeline > 0 ? pipeline : workload == Workload::kEcho ? 1 : 5; }
};

// Sets one option by its flag's name. The message of a failure names it.
absl::Status SetOption(absl::string_view name, absl::string_view value, Options* options);
// `arguments` without the program's name; "--name=value", "--name value", "--flag",
// "--noflag". Not yet checked.
absl::StatusOr<Options> ParseArguments(const std::vector<std::string>& arguments);
// What no run can do, in one line.
absl::Status CheckOptions(const Options& options);

// "500ms", "10s", "2m", "10" (seconds).
absl::StatusOr<int64_t> ParseDuration(absl::string_view text);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_OPTIONS_H_
