// What a run found out, as the table, the JSON file and the page show it.
//
// Threads: values.
#ifndef GYRE_TOOLS_LOAD_RESULT_H_
#define GYRE_TOOLS_LOAD_RESULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/load/checks.h"
#include "tools/load/lost_connections.h"
#include "tools/load/stats.h"

namespace gyre::load {

// Bytes that processes held; 0: not known.
struct Memory {
  int64_t client_bytes = 0;
  int64_t server_bytes = 0;
  int64_t kernel_tcp_bytes = 0;  // socket buffers of the whole machine
};

struct PartResult {
  std::string name;
  std::string workload;
  std::vector<std::pair<std::string, std::string>> options;
  double rate_asked = 0;
  double min_rate_percent = 0;
  bool allow_reconnects = false;
  bool has_latency = true;

  Totals totals;
  std::vector<SecondSummary> seconds;
  double measured_s = 0;
  double client_cpu_s = 0;

  bool checked = false;  // records were read back, or echoes compared
  CheckCounts checks;
  bool idempotent = false;
  int64_t unanswered = 0;   // operations without an answer at the end
  int64_t not_started = 0;  // threads whose schedule held more when the run ended
  LostConnections lost_connections;
  int64_t sent_again = 0;         // records, after a failure
  int64_t unread_partitions = 0;  // reading back did not reach their end
  int64_t open_connections = 0;   // idle
  Memory memory_before, memory_after;

  std::vector<std::string> notes;
  std::vector<std::string> reasons;  // why it is INVALID; Judge fills it
};

// Prometheus text: name with labels -> value.
using MetricValues = std::map<std::string, double>;

struct RunResult {
  std::vector<PartResult> parts;
  bool interrupted = false;
  std::string machine;
  int64_t started_unix_ms = 0;
  MetricValues metrics_before, metrics_after;
  std::vector<std::string> notes;

  bool valid() const {
    for (const PartResult& part : parts) {
      if (!part.reasons.empty()) return false;
    }
    return !interrupted && !parts.empty();
  }
};

// Fills the reasons of every part.
void Judge(RunResult* result);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_RESULT_H_
