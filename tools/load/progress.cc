#include "tools/load/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "tools/load/report/units.h"

namespace gyre::load {
namespace {

constexpr int kBarWidth = 20;
// After a second's end, for the threads to publish it.
constexpr int64_t kPatienceNs = 200'000'000;

}  // namespace

Progress::Progress(const std::string& mode)
    : terminal_(isatty(STDERR_FILENO) != 0),
      shown_(mode == "on" || (mode == "auto" && terminal_)) {}

void Progress::Show(int64_t now_ns, const Window& window, const std::vector<const Board*>& boards) {
  if (!shown_ || now_ns < window.start_ns) return;
  const int64_t second = (now_ns - window.start_ns - kPatienceNs) / 1'000'000'000;
  if (second == last_second_) return;
  last_second_ = second;
  SecondSummary sum;
  int64_t errors = 0;
  for (const Board* board : boards) {
    SecondSummary latest;
    errors += board->error_count();
    if (!board->Latest(&latest)) continue;
    sum.operations += latest.operations;
    sum.bytes += latest.bytes;
    sum.p99_ns = std::max(sum.p99_ns, latest.p99_ns);
  }
  const double done = std::clamp(static_cast<double>(now_ns - window.start_ns) /
                                     static_cast<double>(window.end_ns - window.start_ns),
                                 0.0, 1.0);
  const int filled = static_cast<int>(done * kBarWidth);
  const char* const phase = now_ns < window.warm_end_ns ? "warm-up"
                            : now_ns < window.end_ns    ? "measure"
                                                        : "drain  ";
  const std::string line =
      absl::StrFormat("[%s%s] %3.0f%% %s  %s/s  %s/s  p99 %s  errors %d", std::string(filled, '#'),
                      std::string(kBarWidth - filled, '.'), done * 100, phase,
                      Count(static_cast<double>(sum.operations)),
                      Bytes(static_cast<double>(sum.bytes)), Time(sum.p99_ns), errors);
  if (terminal_) {
    absl::FPrintF(stderr, "\r\033[K%s", line);
  } else {
    absl::FPrintF(stderr, "%s\n", line);
  }
  fflush(stderr);
  line_open_ = terminal_;
}

void Progress::End() {
  if (line_open_) absl::FPrintF(stderr, "\r\033[K");
  line_open_ = false;
}

}  // namespace gyre::load
