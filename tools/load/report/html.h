// A result as one self-contained page: the verdict, latency curves, what happened over
// time, and the broker's own metrics beside them.
#ifndef GYRE_TOOLS_LOAD_REPORT_HTML_H_
#define GYRE_TOOLS_LOAD_REPORT_HTML_H_

#include <string>

#include "tools/load/result.h"

namespace gyre::load {

std::string HtmlText(const RunResult& result);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_HTML_H_
