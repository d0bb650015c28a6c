// What a load client reports: operations and CPU times between two moments, and the percentiles
// of a set of latencies, as one line of JSON.
#ifndef GYRE_BENCHMARKS_MACRO_MEASUREMENT_H_
#define GYRE_BENCHMARKS_MACRO_MEASUREMENT_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <algorithm>
#include <vector>

#include "benchmarks/sockets.h"

namespace gyre::bench {

class Measurement {
 public:
  explicit Measurement(pid_t server_pid) : server_pid_(server_pid) {}

  void Start() {
    server_cpu_ns_ = ProcessCpuNs(server_pid_);
    client_cpu_ns_ = ProcessCpuNs(0);
    start_ns_ = NowNs();
  }
  double SecondsSinceStart() const { return static_cast<double>(NowNs() - start_ns_) / 1e9; }

  // `latencies_ns` may be empty; it is sorted here. `late` counts the sends that left after their
  // time.
  void Print(int64_t operations, int64_t bytes, std::vector<int64_t>& latencies_ns,
             int64_t late = 0) {
    const double seconds = SecondsSinceStart();
    const double server_us = static_cast<double>(ProcessCpuNs(server_pid_) - server_cpu_ns_) / 1e3;
    const double client_us = static_cast<double>(ProcessCpuNs(0) - client_cpu_ns_) / 1e3;
    printf(
        "{\"operations\": %lld, \"bytes\": %lld, \"seconds\": %.6f, \"server_cpu_us\": %.1f, "
        "\"client_cpu_us\": %.1f",
        static_cast<long long>(operations), static_cast<long long>(bytes), seconds, server_us,
        client_us);
    if (!latencies_ns.empty()) {
      std::sort(latencies_ns.begin(), latencies_ns.end());
      const auto at = [&](double quantile) {
        const auto last = static_cast<double>(latencies_ns.size() - 1);
        return static_cast<double>(latencies_ns[static_cast<size_t>(last * quantile)]) / 1e3;
      };
      printf(
          ", \"p50_us\": %.2f, \"p90_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, "
          "\"max_us\": %.2f, \"late\": %lld",
          at(0.5), at(0.9), at(0.99), at(0.999), at(1.0), static_cast<long long>(late));
    }
    printf("}\n");
    fflush(stdout);
  }

 private:
  const pid_t server_pid_;
  int64_t start_ns_ = 0;
  int64_t server_cpu_ns_ = 0;
  int64_t client_cpu_ns_ = 0;
};

}  // namespace gyre::bench

#endif  // GYRE_BENCHMARKS_MACRO_MEASUREMENT_H_
