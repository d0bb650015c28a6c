#include "tools/gyred/flags/flag_registry.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/nearest_name.h"

namespace gyre {

namespace {

constexpr size_t kHelpIndent = 6;
constexpr size_t kHelpWidth = 84;

// Breaks `text` into lines of at most kHelpWidth, each after kHelpIndent spaces.
void AppendWrapped(absl::string_view text, std::string* out) {
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column > 0 && column + 1 + word.size() > kHelpWidth) {
      out->push_back('\n');
      column = 0;
    }
    if (column == 0) {
      out->append(kHelpIndent, ' ');
    } else {
      out->push_back(' ');
      ++column;
    }
    absl::StrAppend(out, word);
    column += word.size();
  }
  out->push_back('\n');
}

gflags::CommandLineFlagInfo InfoOf(const char* name) {
  return gflags::GetCommandLineFlagInfoOrDie(name);
}

std::string HelpOf(const FlagSpec& flag) {
  return flag.help() != nullptr ? flag.help() : InfoOf(flag.name()).description;
}

// The unit is the last word of the name.
const char* UnitOf(absl::string_view name) {
  if (absl::EndsWith(name, "_ms")) return "ms";
  if (absl::EndsWith(name, "_bytes")) return "bytes";
  return "";
}

void AppendFlag(const FlagSpec& flag, std::string* out) {
  const gflags::CommandLineFlagInfo info = InfoOf(flag.name());
  absl::StrAppend(out, "  --", info.name, info.default_value.empty() ? "" : "=", info.default_value,
                  "\n");
  std::string notes = flag.GoodValues();
  if (flag.live() != nullptr) absl::StrAppend(&notes, notes.empty() ? "" : "; ", "live");
  AppendWrapped(
      absl::StrCat(HelpOf(flag), notes.empty() ? "" : " [", notes, notes.empty() ? "" : "]"), out);
}

}  // namespace

absl::Status BadFlagValue(absl::string_view flag, absl::string_view text,
                          absl::string_view choices) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", text, " is not valid; it must be ", choices));
}

std::string FlagSpec::GoodValues() const {
  if (!choices_.empty()) {
    const std::string all_but_last = absl::StrJoin(choices_.begin(), choices_.end() - 1, ", ");
    return absl::StrCat(all_but_last, all_but_last.empty() ? "" : " or ", choices_.back());
  }
  if (!ranged_) return "";
  if (max_ == kInt32Max || max_ == kInt64Max) return absl::StrCat("at least ", min_);
  return absl::StrCat("from ", min_, " to ", max_);
}

absl::Status FlagSpec::Check(absl::string_view type, absl::string_view text) const {
  // gflags would take a text as far as its first NUL; a line break forges a line of the log.
  if (std::any_of(text.begin(), text.end(), absl::ascii_iscntrl)) {
    return BadFlagValue(name_, absl::Utf8SafeCHexEscape(text), "without control characters");
  }
  if (!choices_.empty()) {
    if (std::find(choices_.begin(), choices_.end(), text) != choices_.end()) {
      return absl::OkStatus();
    }
    return BadFlagValue(name_, text, GoodValues());
  }
  if (type == "bool") {
    bool value = false;
    if (absl::SimpleAtob(text, &value)) return absl::OkStatus();
    return BadFlagValue(name_, text, "true or false");
  }
  if (type == "string") return absl::OkStatus();
  if (type == "double") {
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) return BadFlagValue(name_, text, "a number");
    if (!ranged_ || (value >= static_cast<double>(min_) && value <= static_cast<double>(max_))) {
      return absl::OkStatus();
    }
    return BadFlagValue(name_, text, GoodValues());
  }
  int64_t value = 0;
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = kInt64Max;
  if (type == "int32") {
    min = std::numeric_limits<int32_t>::min();
    max = kInt32Max;
  }
  if (ranged_) {
    min = std::max(min, min_);
    max = std::min(max, max_);
  }
  if (absl::SimpleAtoi(text, &value) && value >= min && value <= max) return absl::OkStatus();
  const std::string bounds = ranged_ ? GoodValues() : absl::StrCat("from ", min, " to ", max);
  return BadFlagValue(name_, text, absl::StrCat("a whole number, ", bounds));
}

FlagRegistry::FlagRegistry(std::vector<FlagGroup> groups) : groups_(std::move(groups)) {
  for (const FlagGroup& group : groups_) {
    for (const FlagSpec& flag : group.flags) InfoOf(flag.name());
  }
}

absl::Status FlagRegistry::Check() const {
  for (const FlagGroup& group : groups_) {
    for (const FlagSpec& flag : group.flags) {
      const gflags::CommandLineFlagInfo info = InfoOf(flag.name());
      GYRE_RETURN_IF_ERROR(flag.Check(info.type, info.current_value));
    }
  }
  return absl::OkStatus();
}

absl::Status FlagRegistry::Apply(BrokerServerOptions& options) const {
  GYRE_RETURN_IF_ERROR(Check());
  for (const FlagGroup& group : groups_) {
    if (group.apply != nullptr) GYRE_RETURN_IF_ERROR(group.apply(options));
  }
  return absl::OkStatus();
}

std::string FlagRegistry::Help(bool full) const {
  std::string text;
  for (const FlagGroup& group : groups_) {
    absl::StrAppend(&text, "\n", group.title, "\n");
    for (const FlagSpec& flag : group.flags) AppendFlag(flag, &text);
  }
  if (!full) return text;
  absl::StrAppend(&text, "\nOf the libraries (gflags, glog)\n");
  std::vector<gflags::CommandLineFlagInfo> all;
  gflags::GetAllFlags(&all);
  for (const gflags::CommandLineFlagInfo& info : all) {
    if (Find(info.name) == nullptr) {
      AppendFlag(FlagSpec(info.name.c_str()).Help(info.description.c_str()), &text);
    }
  }
  return text;
}

std::vector<FlagRegistry::Entry> FlagRegistry::List() const {
  // Not under the lock, which a change may hold for long; gflags has one of its own.
  std::vector<Entry> entries;
  for (const FlagGroup& group : groups_) {
    for (const FlagSpec& flag : group.flags) {
      const gflags::CommandLineFlagInfo info = InfoOf(flag.name());
      Entry& entry = entries.emplace_back();
      entry.name = info.name;
      entry.group = group.title;
      entry.type = info.type;
      entry.value = info.current_value;
      entry.default_value = info.default_value;
      entry.help = HelpOf(flag);
      entry.unit = UnitOf(info.name);
      entry.good_values = info.type == "bool" ? "true or false" : flag.GoodValues();
      entry.live = flag.live() != nullptr;
    }
  }
  return entries;
}

absl::Status FlagRegistry::Set(absl::string_view name, absl::string_view value,
                               BrokerServer& server) {
  const FlagSpec* flag = Find(name);
  if (flag == nullptr) return absl::NotFoundError(NoSuchFlag(name));
  if (flag->live() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("--", name, " takes effect at a start only; give it to gyred then"));
  }
  MutexLock lock(mutex_);
  const gflags::CommandLineFlagInfo before = InfoOf(flag->name());
  GYRE_RETURN_IF_ERROR(flag->Check(before.type, value));
  if (gflags::SetCommandLineOption(flag->name(), std::string(value).c_str()).empty()) {
    return BadFlagValue(name, value, absl::StrCat("of type ", before.type));
  }
  // What a start would refuse because of another flag.
  BrokerServerOptions as_at_a_start;
  absl::Status status = ApplyGroup(*flag, as_at_a_start);
  if (status.ok()) status = flag->live()(server);
  if (!status.ok()) {
    gflags::SetCommandLineOption(flag->name(), before.current_value.c_str());
    return status;
  }
  LOG(INFO) << "--" << name << " is now " << value << ", was " << before.current_value;
  return absl::OkStatus();
}

absl::Status FlagRegistry::SetBeforeStart(absl::string_view name, absl::string_view value) const {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(std::string(name).c_str(), &info)) {
    return absl::InvalidArgumentError(NoSuchFlag(name));
  }
  const FlagSpec* const ours = Find(info.name);
  const FlagSpec library(info.name.c_str());
  GYRE_RETURN_IF_ERROR((ours != nullptr ? *ours : library).Check(info.type, value));
  if (gflags::SetCommandLineOption(info.name.c_str(), std::string(value).c_str()).empty()) {
    return BadFlagValue(info.name, value, absl::StrCat("of type ", info.type));
  }
  return absl::OkStatus();
}

std::string FlagRegistry::NoSuchFlag(absl::string_view name) const {
  std::vector<std::string> names;
  for (const FlagGroup& group : groups_) {
    for (const FlagSpec& flag : group.flags) names.push_back(flag.name());
  }
  return absl::StrCat("there is no flag --", absl::Utf8SafeCHexEscape(name),
                      DidYouMean(name, names));
}

absl::Status FlagRegistry::ApplyGroup(const FlagSpec& flag, BrokerServerOptions& options) const {
  for (const FlagGroup& group : groups_) {
    const bool is_of_group = std::any_of(group.flags.begin(), group.flags.end(),
                                         [&](const FlagSpec& other) { return &other == &flag; });
    if (is_of_group && group.apply != nullptr) return group.apply(options);
  }
  return absl::OkStatus();
}

const FlagSpec* FlagRegistry::Find(absl::string_view name) const {
  for (const FlagGroup& group : groups_) {
    for (const FlagSpec& flag : group.flags) {
      if (name == flag.name()) return &flag;
    }
  }
  return nullptr;
}

}  // namespace gyre
