#include "tools/load/report/units.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gyre::load {
namespace {

// Three digits that count.
std::string Digits(double value) {
  const double size = std::fabs(value);
  if (size >= 100) return absl::StrFormat("%.0f", value);
  return size >= 10 ? absl::StrFormat("%.1f", value) : absl::StrFormat("%.2f", value);
}

std::string Scaled(double value, const char* const* suffixes, int count) {
  int power = 0;
  while (std::fabs(value) >= 999.5 && power + 1 < count) {
    value /= 1000;
    ++power;
  }
  if (power == 0) return absl::StrCat(absl::StrFormat("%.0f", value), suffixes[0]);
  return absl::StrCat(Digits(value), suffixes[power]);
}

}  // namespace

std::string Count(double value) {
  constexpr const char* kSuffixes[] = {"", "k", "M", "G"};
  return Scaled(value, kSuffixes, 4);
}

std::string Bytes(double value) {
  constexpr const char* kSuffixes[] = {" B", " kB", " MB", " GB", " TB"};
  return Scaled(value, kSuffixes, 5);
}

std::string Time(int64_t ns) {
  constexpr const char* kSuffixes[] = {" ns", " us", " ms", " s"};
  return Scaled(static_cast<double>(ns), kSuffixes, 4);
}

}  // namespace gyre::load
