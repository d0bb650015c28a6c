#include "tools/gyred/flags/nearest_name.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace gyre {
namespace {

// Letters to put in, take out or replace (Levenshtein).
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// A word that is left out counts less than its letters.
size_t Distance(absl::string_view name, absl::string_view candidate) {
  const size_t edits = EditDistance(name, candidate);
  if (name.size() < 4 || !absl::StrContains(candidate, name)) return edits;
  return std::min(edits, 1 + (candidate.size() - name.size()) / 8);
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& names) {
  const std::string plain =
      absl::StrReplaceAll(absl::AsciiStrToLower(name), {{".", "_"}, {"-", "_"}});
  size_t nearest_distance = std::max<size_t>(2, plain.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : names) {
    const size_t distance = Distance(plain, candidate);
    if (distance >= nearest_distance || distance >= candidate.size()) continue;
    nearest_distance = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?");
}

}  // namespace gyre
