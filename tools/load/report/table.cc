#include "tools/load/report/table.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/load/report/units.h"

namespace gyre::load {
namespace {

std::string Percent(double percent) { return absl::StrCat("p", percent); }

void AppendThroughput(const PartResult& part, std::string* out) {
  if (part.open_connections > 0) return;  // idle
  const double seconds = part.measured_s > 0 ? part.measured_s : 1;
  absl::StrAppendFormat(out, "  throughput   %s/s",
                        Count(static_cast<double>(part.totals.operations_in_window) / seconds));
  if (part.rate_asked > 0) absl::StrAppendFormat(out, " of %s/s asked", Count(part.rate_asked));
  absl::StrAppendFormat(out, ", %s/s, over %.1f s\n",
                        Bytes(static_cast<double>(part.totals.bytes_in_window) / seconds),
                        part.measured_s);
  if (part.client_cpu_s > 0 && part.totals.operations_in_window > 0) {
    absl::StrAppendFormat(
        out, "  generator    %.0f %% of a core, %.2f us an operation\n",
        100 * part.client_cpu_s / seconds,
        1e6 * part.client_cpu_s / static_cast<double>(part.totals.operations_in_window));
  }
}

void AppendLatency(const PartResult& part, std::string* out) {
  const bool open_loop = part.rate_asked > 0;
  const Totals& totals = part.totals;
  if (!part.has_latency || totals.latency.count() == 0) return;
  absl::StrAppendFormat(out, "  %-12s %12s", "latency", open_loop ? "intended" : "closed loop");
  if (open_loop) absl::StrAppendFormat(out, " %12s %12s", "service", "late start");
  absl::StrAppend(out, "\n");
  const auto row = [&](const std::string& name, auto value) {
    absl::StrAppendFormat(out, "    %-10s %12s", name, Time(value(totals.latency)));
    if (open_loop) {
      absl::StrAppendFormat(out, " %12s %12s", Time(value(totals.service)),
                            Time(value(totals.delay)));
    }
    absl::StrAppend(out, "\n");
  };
  row("mean", [](const Histogram& h) { return static_cast<int64_t>(h.Mean()); });
  for (const double percent : kShownPercents) {
    // A percentile that fewer than one operation is above says nothing.
    if (static_cast<double>(totals.latency.count()) * (100 - percent) / 100 < 1) break;
    row(Percent(percent), [percent](const Histogram& h) { return h.Percentile(percent); });
  }
  row("max", [](const Histogram& h) { return h.max(); });
  if (open_loop) {
    absl::StrAppendFormat(out,
                          "  schedule     starts late by the generator itself: p99 %s, max %s\n",
                          Time(totals.own_delay.Percentile(99)), Time(totals.own_delay.max()));
  }
}

void AppendChecks(const PartResult& part, std::string* out) {
  if (!part.checked) return;
  const CheckCounts& checks = part.checks;
  absl::StrAppendFormat(
      out, "  checked      %d records: %d lost, %d duplicated, %d reordered, %d corrupted\n",
      checks.checked, checks.lost, checks.duplicated, checks.reordered, checks.corrupted);
  if (part.sent_again > 0) {
    absl::StrAppendFormat(out, "  sent again   %d records after failures", part.sent_again);
    if (!part.idempotent) {
      absl::StrAppendFormat(out, "; without idempotence: %d duplicated and %d reordered by that",
                            checks.duplicated_by_retry, checks.reordered_by_retry);
    }
    absl::StrAppend(out, "\n");
  }
  if (checks.never_written > 0) {
    absl::StrAppendFormat(out, "  not written  %d records that were never acknowledged\n",
                          checks.never_written);
  }
  if (checks.foreign > 0) {
    absl::StrAppendFormat(out, "  unchecked    %d records of others\n", checks.foreign);
  }
}

void AppendMemory(const PartResult& part, std::string* out) {
  if (part.open_connections == 0) return;
  const auto line = [&](const char* name, int64_t before, int64_t after) {
    if (after == 0) return;
    absl::StrAppendFormat(
        out, "  %-12s %s before, %s at the end: %s a connection\n", name,
        Bytes(static_cast<double>(before)), Bytes(static_cast<double>(after)),
        Bytes(static_cast<double>(after - before) / static_cast<double>(part.open_connections)));
  };
  absl::StrAppendFormat(out, "  idle         %d connections open at the end\n",
                        part.open_connections);
  line("client", part.memory_before.client_bytes, part.memory_after.client_bytes);
  line("server", part.memory_before.server_bytes, part.memory_after.server_bytes);
  line("kernel tcp", part.memory_before.kernel_tcp_bytes, part.memory_after.kernel_tcp_bytes);
}

}  // namespace

std::string VerdictText(const RunResult& result) {
  if (result.valid()) return "VALID";
  std::vector<std::string> reasons;
  if (result.interrupted) reasons.push_back("interrupted");
  for (const PartResult& part : result.parts) {
    for (const std::string& reason : part.reasons) {
      reasons.push_back(result.parts.size() > 1 ? absl::StrCat(part.name, ": ", reason) : reason);
    }
  }
  if (result.interrupted) return absl::StrCat("INVALID (", absl::StrJoin(reasons, "; "), ")");
  return absl::StrCat("INVALID: ", absl::StrJoin(reasons, "; "));
}

std::string TableText(const RunResult& result) {
  std::string out;
  for (const PartResult& part : result.parts) {
    absl::StrAppendFormat(&out, "%s%s\n", part.workload,
                          part.name == part.workload ? "" : absl::StrCat(" [", part.name, "]"));
    AppendThroughput(part, &out);
    AppendLatency(part, &out);
    AppendChecks(part, &out);
    AppendMemory(part, &out);
    if (part.lost_connections.count > 0) {
      absl::StrAppendFormat(&out, "  connections  %d lost\n", part.lost_connections.count);
    }
    for (const std::string& note : part.notes) absl::StrAppend(&out, "  note: ", note, "\n");
  }
  for (const std::string& note : result.notes) absl::StrAppend(&out, "note: ", note, "\n");
  return absl::StrCat(out, VerdictText(result), "\n");
}

}  // namespace gyre::load
