// The final table, for a terminal.
#ifndef GYRE_TOOLS_LOAD_REPORT_TABLE_H_
#define GYRE_TOOLS_LOAD_REPORT_TABLE_H_

#include <string>

#include "tools/load/result.h"

namespace gyre::load {

// The percentiles that every report shows.
inline constexpr double kShownPercents[] = {50, 90, 99, 99.9, 99.99, 99.999};

std::string TableText(const RunResult& result);
// "VALID" or "INVALID: reason; reason".
std::string VerdictText(const RunResult& result);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_TABLE_H_
