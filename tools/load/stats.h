// What is counted while a workload runs. A Recorder belongs to one thread; once a second
// it hands that second to the Board, which all threads of a part share.
#ifndef GYRE_TOOLS_LOAD_STATS_H_
#define GYRE_TOOLS_LOAD_STATS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"
#include "tools/load/histogram.h"
#include "tools/load/schedule.h"

namespace gyre::load {

// Over the measured window: operations whose intended start lies in it.
struct Totals {
  Histogram latency;    // from the intended start to the end
  Histogram service;    // from the real start to the end
  Histogram delay;      // from the intended to the real start (open loop)
  Histogram own_delay;  // the part of it that was the generator's own
  int64_t operations = 0;
  int64_t bytes = 0;
  // Operations that ended within the window, whenever they began: the throughput.
  int64_t operations_in_window = 0;
  int64_t bytes_in_window = 0;
  int64_t due = 0;  // open loop: operations that the schedule began in the window
  std::map<std::string, int64_t> errors;  // by what happened, warm-up included

  void Merge(const Totals& other);
  int64_t error_count() const;
};

struct Second {
  int64_t operations = 0;
  int64_t bytes = 0;
  int64_t errors = 0;
  Histogram latency;
};

// One second of the series as it is kept and written.
struct SecondSummary {
  int64_t second = 0;  // from the start of the window; below 0: warm-up
  int64_t operations = 0;
  int64_t bytes = 0;
  int64_t errors = 0;
  int64_t p50_ns = 0;
  int64_t p99_ns = 0;
  int64_t max_ns = 0;
};

// Threads: any.
class Board {
 public:
  void Publish(int64_t second, const Second& stats);
  // The last second that is over for everybody, about; false before the first.
  bool Latest(SecondSummary* summary) const;
  std::vector<SecondSummary> Summaries() const;
  int64_t error_count() const;

 private:
  static SecondSummary Summarise(int64_t second, const Second& stats);

  mutable Mutex mutex_;
  std::map<int64_t, Second> seconds_ ABSL_GUARDED_BY(mutex_);
  // Older ones, without their histograms.
  std::map<int64_t, SecondSummary> old_ ABSL_GUARDED_BY(mutex_);
  int64_t errors_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Threads: one at a time.
class Recorder {
 public:
  Recorder(const Window& window, Board& board) : window_(window), board_(board) {}

  void Started(int64_t intended_ns, int64_t now_ns, int64_t own_delay_ns);
  // `operations` above 1: they shared one latency (the records of a Fetch).
  void Done(int64_t intended_ns, int64_t started_ns, int64_t now_ns, int64_t bytes,
            int64_t operations = 1);
  void Error(absl::string_view what, int64_t now_ns, int64_t count = 1);
  // Publishes seconds that are over; often.
  void Turn(int64_t now_ns) {
    if (now_ns >= second_end_ns_) CloseSecond(now_ns);
  }
  // Publishes what is left.
  void Finish() { board_.Publish(second_, current_); }

  const Window& window() const { return window_; }
  const Totals& totals() const { return totals_; }

 private:
  void CloseSecond(int64_t now_ns);
  bool Measured(int64_t intended_ns) const {
    return intended_ns >= window_.warm_end_ns && intended_ns < window_.end_ns;
  }

  const Window window_;
  Board& board_;
  Totals totals_;
  int64_t second_ = INT64_MIN;
  int64_t second_end_ns_ = INT64_MIN;
  Second current_;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_STATS_H_
