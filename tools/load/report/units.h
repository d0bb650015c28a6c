// Numbers as people read them.
#ifndef GYRE_TOOLS_LOAD_REPORT_UNITS_H_
#define GYRE_TOOLS_LOAD_REPORT_UNITS_H_

#include <cstdint>
#include <string>

namespace gyre::load {

// "12.3k", "4.56M"
std::string Count(double value);
// "1.5 MB" (decimal)
std::string Bytes(double value);
// "850 ns", "12.3 us", "4.56 ms", "1.20 s"
std::string Time(int64_t ns);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_UNITS_H_
