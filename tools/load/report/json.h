// A result as JSON, for programs and for --compare.
#ifndef GYRE_TOOLS_LOAD_REPORT_JSON_H_
#define GYRE_TOOLS_LOAD_REPORT_JSON_H_

#include <string>

#include "tools/load/find_max.h"
#include "tools/load/result.h"

namespace gyre::load {

// `search`: of --find_max; null for an ordinary run.
std::string JsonText(const RunResult& result, const Search* search);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_JSON_H_
