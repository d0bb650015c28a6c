// gyre_load: see help.cc, or --help.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "tools/load/find_max.h"
#include "tools/load/help.h"
#include "tools/load/options.h"
#include "tools/load/report/compare.h"
#include "tools/load/report/html.h"
#include "tools/load/report/json.h"
#include "tools/load/report/table.h"
#include "tools/load/run.h"
#include "tools/load/scenario.h"

namespace gyre::load {
namespace {

constexpr int kValid = 0;
constexpr int kInvalid = 1;
constexpr int kCannotRun = 2;

std::atomic<bool> interrupted{false};

void OnSignal(int) {
  // The second one does not wait for anything.
  if (interrupted.exchange(true)) _exit(kInvalid);
}

void HandleSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  if (path == "-") {
    fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus()
              : absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
}

// One run of the search. The last one's result is kept for the report.
absl::StatusOr<SearchStep> RunStep(const Options& options, double rate, RunResult* last) {
  Options step = options;
  step.rate = rate;
  step.duration_ns = options.step_ns;
  GYRE_ASSIGN_OR_RETURN(*last, RunParts({step}, interrupted));
  if (last->interrupted) return absl::CancelledError("interrupted");
  const PartResult& part = last->parts[0];
  const SearchStep result = {
      .rate = rate,
      .reached =
          static_cast<double>(part.totals.operations_in_window) / std::max(part.measured_s, 1e-9),
      .p99_ms = static_cast<double>(part.totals.latency.Percentile(99)) / 1e6,
      .valid = last->valid()};
  absl::FPrintF(stderr, "%10.0f/s  p99 %9.3f ms  %s\n", rate, result.p99_ms,
                result.valid ? (result.p99_ms <= options.p99_ms ? "kept" : "broken")
                             : VerdictText(*last).c_str());
  return result;
}

absl::StatusOr<RunResult> RunSearch(const Options& options, Search* search) {
  RunResult last, kept;
  absl::StatusOr<Search> found =
      FindMax(options.rate > 0 ? options.rate : 1000, options.p99_ms, [&](double rate) {
        absl::StatusOr<SearchStep> step = RunStep(options, rate, &last);
        if (step.ok() && step->valid && step->p99_ms <= options.p99_ms) kept = last;
        return step;
      });
  if (!found.ok() && !interrupted) return found.status();
  if (found.ok()) *search = *std::move(found);
  // What is reported is the last run that kept the bound, unless there is none.
  RunResult result = kept.parts.empty() ? last : kept;
  result.interrupted = interrupted;
  return result;
}

void PrintSearch(const Search& search) {
  if (search.found_rate <= 0) {
    absl::PrintF("find_max: no rate keeps p99 within %g ms\n", search.bound_ms);
    return;
  }
  absl::PrintF("find_max: %.0f/s keeps p99 within %g ms (%d runs in a row)", search.found_rate,
               search.bound_ms, search.confirmations);
  if (search.broken_rate > 0) absl::PrintF("; %.0f/s does not", search.broken_rate);
  absl::PrintF("\n");
}

absl::StatusOr<int> Run(const std::vector<std::string>& arguments) {
  GYRE_ASSIGN_OR_RETURN(const Options options, ParseArguments(arguments));
  if (options.help) {
    fputs(HelpText().c_str(), stdout);
    return kValid;
  }
  if (!options.compare.empty()) {
    GYRE_ASSIGN_OR_RETURN(const std::string text, CompareFiles(options.compare), "--compare");
    fputs(text.c_str(), stdout);
    return kValid;
  }
  GYRE_ASSIGN_OR_RETURN(const std::vector<Options> parts, PartsOf(options));
  // Before the run: an hour's result must not fail to be written.
  for (const std::string& path : {options.json, options.report}) {
    if (!path.empty()) GYRE_RETURN_IF_ERROR(WriteFile(path, ""));
  }
  HandleSignals();

  Search search;
  RunResult result;
  if (options.find_max) {
    if (parts.size() > 1) return absl::InvalidArgumentError("--find_max: not with a scenario");
    GYRE_ASSIGN_OR_RETURN(result, RunSearch(parts[0], &search));
  } else {
    GYRE_ASSIGN_OR_RETURN(result, RunParts(parts, interrupted));
  }
  const bool json_to_stdout = options.json == "-";
  if (!json_to_stdout) {
    fputs(TableText(result).c_str(), stdout);
    if (options.find_max) PrintSearch(search);
  }
  const Search* const searched = options.find_max ? &search : nullptr;
  if (!options.json.empty()) {
    GYRE_RETURN_IF_ERROR(WriteFile(options.json, JsonText(result, searched)));
  }
  if (!options.report.empty()) {
    GYRE_RETURN_IF_ERROR(WriteFile(options.report, HtmlText(result)));
  }
  if (options.find_max) return search.found_rate > 0 && !result.interrupted ? kValid : kInvalid;
  return result.valid() ? kValid : kInvalid;
}

}  // namespace
}  // namespace gyre::load

int main(int argc, char** argv) {
  const absl::StatusOr<int> code = gyre::load::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (code.ok()) return *code;
  absl::FPrintF(stderr, "gyre_load: %s\n", code.status().message());
  return gyre::load::kCannotRun;
}
