#include "tools/load/report/compare.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/base/random.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/load/report/units.h"

namespace gyre::load {
namespace {

using Json = nlohmann::json;

constexpr int kResamples = 2000;
constexpr size_t kEnoughRounds = 3;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Nothing in a file is trusted to be there, or to be what it should be.
double NumberAt(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* name : path) {
    if (!at->is_object()) return 0;
    const auto found = at->find(name);
    if (found == at->end()) return 0;
    at = &*found;
  }
  return at->is_number() ? at->get<double>() : 0;
}

std::string TextAt(const Json& json, const char* name) {
  if (!json.is_object()) return "";
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

const Json& ArrayAt(const Json& json, const char* name) {
  static const Json& empty = *new Json(Json::array());
  if (!json.is_object()) return empty;
  const auto found = json.find(name);
  return found != json.end() && found->is_array() ? *found : empty;
}

absl::StatusOr<std::vector<Json>> Load(const std::string& names) {
  std::vector<Json> rounds;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    std::ifstream file{std::string(name)};
    if (!file) return absl::NotFoundError(absl::StrCat(name, ": cannot be read"));
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded() || TextAt(json, "format") != "gyre_load 1") {
      return absl::InvalidArgumentError(absl::StrCat(name, ": is no result of gyre_load --json"));
    }
    rounds.push_back(std::move(json));
  }
  return rounds;
}

// One part of all rounds of one side.
struct Side {
  std::vector<const Json*> rounds;

  std::vector<double> Rounds(std::initializer_list<const char*> path) const {
    std::vector<double> values;
    for (const Json* round : rounds) {
      if (const double value = NumberAt(*round, path); value > 0) values.push_back(value);
    }
    return values;
  }
  // Of the measured seconds, without the last one, which is cut.
  std::vector<double> Seconds(const char* name, double duration_s) const {
    std::vector<double> values;
    for (const Json* round : rounds) {
      for (const Json& second : ArrayAt(*round, "seconds")) {
        const double number = NumberAt(second, {"second"});
        const double value = NumberAt(second, {name});
        if (number >= 0 && number + 1 <= duration_s && value > 0) values.push_back(value);
      }
    }
    return values;
  }
};

std::map<std::string, Side> PartsOf(const std::vector<Json>& rounds) {
  std::map<std::string, Side> parts;
  for (const Json& round : rounds) {
    for (const Json& part : ArrayAt(round, "parts")) {
      parts[TextAt(part, "name")].rounds.push_back(&part);
    }
  }
  return parts;
}

void AppendRow(const std::string& name, const std::vector<double>& a, const std::vector<double>& b,
               const std::function<std::string(double)>& show, std::string* out) {
  if (a.empty() || b.empty()) return;
  const Ratio ratio = CompareSamples(a, b);
  absl::StrAppendFormat(out, "  %-22s %12s %12s   %6.3f  [%.3f, %.3f]%s\n", name, show(Median(a)),
                        show(Median(b)), ratio.ratio, ratio.low, ratio.high,
                        ratio.is_different() ? "" : "  no difference can be told");
}

void AppendPart(const Side& a, const Side& b, std::string* out) {
  const auto time = [](double ns) { return Time(static_cast<int64_t>(ns)); };
  const auto count = [](double value) { return absl::StrCat(Count(value), "/s"); };
  const bool by_rounds = a.rounds.size() >= kEnoughRounds && b.rounds.size() >= kEnoughRounds;
  const auto samples = [&](const Side& side, const char* second,
                           std::initializer_list<const char*> whole) {
    return by_rounds ? side.Rounds(whole)
                     : side.Seconds(second, NumberAt(*side.rounds[0], {"measured_s"}));
  };
  AppendRow("throughput", samples(a, "operations", {"operations_per_s"}),
            samples(b, "operations", {"operations_per_s"}), count, out);
  AppendRow(by_rounds ? "p50" : "p50 of a second",
            samples(a, "p50_ns", {"latency_ns", "percentiles", "50"}),
            samples(b, "p50_ns", {"latency_ns", "percentiles", "50"}), time, out);
  AppendRow(by_rounds ? "p99" : "p99 of a second",
            samples(a, "p99_ns", {"latency_ns", "percentiles", "99"}),
            samples(b, "p99_ns", {"latency_ns", "percentiles", "99"}), time, out);
  if (by_rounds) {
    AppendRow("p99.9", a.Rounds({"latency_ns", "percentiles", "99.9"}),
              b.Rounds({"latency_ns", "percentiles", "99.9"}), time, out);
  }
}

}  // namespace

Ratio CompareSamples(const std::vector<double>& a, const std::vector<double>& b) {
  Ratio ratio;
  if (a.empty() || b.empty() || Median(a) <= 0) return ratio;
  ratio.ratio = Median(b) / Median(a);
  Random random(1);
  const auto resample = [&random](const std::vector<double>& values) {
    std::vector<double> drawn;
    for (size_t i = 0; i < values.size(); ++i) drawn.push_back(values[random.Below(values.size())]);
    return Median(std::move(drawn));
  };
  std::vector<double> ratios;
  for (int i = 0; i < kResamples; ++i) {
    const double below = resample(a);
    if (below > 0) ratios.push_back(resample(b) / below);
  }
  if (ratios.empty()) return ratio;
  std::sort(ratios.begin(), ratios.end());
  ratio.low = ratios[ratios.size() / 40];
  ratio.high = ratios[ratios.size() - 1 - ratios.size() / 40];
  return ratio;
}

absl::StatusOr<std::string> CompareFiles(const std::vector<std::string>& names) {
  GYRE_ASSIGN_OR_RETURN(const std::vector<Json> a, Load(names[0]));
  GYRE_ASSIGN_OR_RETURN(const std::vector<Json> b, Load(names[1]));
  std::string out;
  for (const auto* rounds : {&a, &b}) {
    for (const Json& round : *rounds) {
      if (TextAt(round, "verdict") != "VALID") {
        absl::StrAppend(&out, "note: one of ", rounds == &a ? "A" : "B", " is ",
                        TextAt(round, "verdict"), "\n");
      }
    }
  }
  const std::map<std::string, Side> parts_a = PartsOf(a);
  const std::map<std::string, Side> parts_b = PartsOf(b);
  bool any = false;
  for (const auto& [name, side] : parts_a) {
    const auto other = parts_b.find(name);
    if (other == parts_b.end()) continue;
    any = true;
    absl::StrAppendFormat(&out, "%-24s %12s %12s   %6s  95%% of it\n", name, "A", "B", "B/A");
    AppendPart(side, other->second, &out);
  }
  if (!any) return absl::InvalidArgumentError("the two have no part of the same name");
  return out;
}

}  // namespace gyre::load
