// VALID or INVALID: the one place that decides.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/load/result.h"

namespace gyre::load {
namespace {

void JudgeChecks(const PartResult& part, std::vector<std::string>* reasons) {
  const auto count = [reasons](int64_t number, const char* what) {
    if (number > 0) reasons->push_back(absl::StrCat(number, " ", what));
  };
  count(part.checks.lost, "lost");
  count(part.checks.duplicated, "duplicated");
  count(part.checks.reordered, "reordered");
  count(part.checks.corrupted, "corrupted");
  count(part.unread_partitions, "partitions could not be read back to their end");
}

void JudgeRate(const PartResult& part, std::vector<std::string>* reasons) {
  if (part.rate_asked <= 0 || part.measured_s <= 0) return;
  const double reached = static_cast<double>(part.totals.operations_in_window) / part.measured_s;
  if (reached * 100 >= part.rate_asked * part.min_rate_percent) return;
  reasons->push_back(absl::StrFormat(
      "the schedule was not kept: %.0f/s of %.0f/s, starts up to %.1f ms late (%.1f ms by the "
      "generator itself)",
      reached, part.rate_asked, static_cast<double>(part.totals.delay.max()) / 1e6,
      static_cast<double>(part.totals.own_delay.max()) / 1e6));
}

void JudgePart(PartResult* part) {
  std::vector<std::string>* const reasons = &part->reasons;
  JudgeChecks(*part, reasons);
  JudgeRate(*part, reasons);
  if (part->unanswered > 0) {
    reasons->push_back(absl::StrCat(part->unanswered, " operations were never answered"));
  }
  if (part->not_started > 0) {
    reasons->push_back("the run ended before everything that was scheduled had started");
  }
  if (const LostConnections& lost = part->lost_connections;
      lost.count > 0 && !part->allow_reconnects) {
    reasons->push_back(
        absl::StrCat(lost.count, " connections were lost, the first so: ", lost.first_reason));
  }
  for (const auto& [what, times] : part->totals.errors) {
    reasons->push_back(absl::StrCat(times, " errors: ", what));
  }
  if (part->totals.operations_in_window == 0 && part->totals.operations == 0 &&
      part->open_connections == 0) {
    reasons->push_back("nothing was measured");
  }
}

}  // namespace

void Judge(RunResult* result) {
  for (PartResult& part : result->parts) JudgePart(&part);
}

}  // namespace gyre::load
