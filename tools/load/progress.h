// The line that moves while a run goes on: to standard error, once a second, in place on
// a terminal and line by line elsewhere.
//
// Threads: one.
#ifndef GYRE_TOOLS_LOAD_PROGRESS_H_
#define GYRE_TOOLS_LOAD_PROGRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/load/schedule.h"
#include "tools/load/stats.h"

namespace gyre::load {

class Progress {
 public:
  // "auto", "on" or "off".
  explicit Progress(const std::string& mode);
  void Show(int64_t now_ns, const Window& window, const std::vector<const Board*>& boards);
  void End();

 private:
  bool terminal_;
  bool shown_;
  bool line_open_ = false;
  int64_t last_second_ = INT64_MIN;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_PROGRESS_H_
