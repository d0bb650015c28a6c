#include "tools/load/scenario.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "tools/load/environment.h"

namespace gyre::load {
namespace {

// What belongs to the run as a whole, not to a section.
bool IsOfTheRun(absl::string_view name) {
  for (const absl::string_view other : {"duration", "warmup", "scenario", "json", "report",
                                        "metrics_url", "progress", "find_max", "p99_ms", "help"}) {
    if (name == other) return true;
  }
  return false;
}

void Normalise(Options* options) {
  if (options->name.empty()) options->name = std::string(WorkloadName(options->workload));
  // What is read once and then over has nothing to warm up with.
  const bool warmup_given = std::any_of(options->given.begin(), options->given.end(),
                                        [](const auto& flag) { return flag.first == "warmup"; });
  if (options->workload == Workload::kConsume && options->at_end == AtEnd::kStop && !warmup_given) {
    options->warmup_ns = 0;
  }
}

}  // namespace

absl::StatusOr<std::vector<Options>> ParseScenario(absl::string_view text, const Options& base) {
  std::vector<Options> parts;
  int32_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string where = absl::StrCat("line ", number);
    if (line.front() == '[' && line.back() == ']') {
      Options part = base;
      part.name = std::string(line.substr(1, line.size() - 2));
      part.workload = Workload::kNone;
      parts.push_back(std::move(part));
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> flag =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(flag.first);
    if (parts.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": flags come after a [name]"));
    }
    if (IsOfTheRun(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", name, " is the whole run's: it goes on the command line"));
    }
    GYRE_RETURN_IF_ERROR(SetOption(name, absl::StripAsciiWhitespace(flag.second), &parts.back()),
                         where);
  }
  if (parts.empty()) return absl::InvalidArgumentError("there is no [section] in it");
  return parts;
}

absl::StatusOr<std::vector<Options>> PartsOf(const Options& options) {
  GYRE_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<Options> parts = {options};
  if (options.workload == Workload::kMixed) {
    GYRE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(options.scenario),
                          "--scenario");
    GYRE_ASSIGN_OR_RETURN(parts, ParseScenario(absl::StrJoin(lines, "\n"), options),
                          options.scenario);
    for (const Options& part : parts) {
      if (part.workload == Workload::kMixed) {
        return absl::InvalidArgumentError(
            absl::StrCat(options.scenario, ": [", part.name, "]: mixed within mixed"));
      }
      GYRE_RETURN_IF_ERROR(CheckOptions(part),
                           absl::StrCat(options.scenario, ": [", part.name, "]"));
    }
  }
  for (Options& part : parts) Normalise(&part);
  return parts;
}

}  // namespace gyre::load
