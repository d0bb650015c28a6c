#include "tools/gyred/flags/command_line.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/fs/file_system.h"
#include "gflags/gflags.h"

DECLARE_string(flagfile);

namespace gyre {
namespace {

// Files that name each other come to an end.
constexpr int kMaxDepth = 16;

absl::Status Wrong(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' ", what));
}

// A line of a file without the comment at its end: from a # behind a space.
absl::string_view WithoutComment(absl::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || absl::ascii_isspace(line[i - 1]))) return line.substr(0, i);
  }
  return line;
}

bool IsSwitch(absl::string_view name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(std::string(name).c_str(), &info) && info.type == "bool";
}

class Reader {
 public:
  explicit Reader(const FlagRegistry& registry) : registry_(registry) {}

  absl::Status ReadArguments(const std::vector<std::string>& arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      absl::string_view name = arguments[i];
      if (name == "--" && i + 1 == arguments.size()) break;
      if (!absl::ConsumePrefix(&name, "-") || name.empty()) {
        return Wrong(arguments[i], "is not a flag; see gyred --help");
      }
      absl::ConsumePrefix(&name, "-");
      if (NeedsValue(name) && i + 1 < arguments.size()) {
        GYRE_RETURN_IF_ERROR(Set(name, arguments[++i]));
      } else {
        GYRE_RETURN_IF_ERROR(SetFrom(name));
      }
    }
    return absl::OkStatus();
  }

 private:
  static bool NeedsValue(absl::string_view name) {
    gflags::CommandLineFlagInfo info;
    return gflags::GetCommandLineFlagInfo(std::string(name).c_str(), &info) && info.type != "bool";
  }

  absl::Status ReadFile(const std::string& path) {
    if (++depth_ > kMaxDepth) {
      return absl::InvalidArgumentError(absl::StrCat("--flagfile=", path,
                                                     ": too many files within "
                                                     "each other"));
    }
    absl::StatusOr<std::string> text = FileSystem::Real().ReadFile(path);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--flagfile=", path, ": ", text.status().message()));
    }
    int number = 0;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      ++number;
      line = absl::StripAsciiWhitespace(WithoutComment(line));
      if (line.empty()) continue;
      GYRE_RETURN_IF_ERROR(ReadLine(line), absl::StrCat(path, ":", number));
    }
    --depth_;
    return absl::OkStatus();
  }

  absl::Status ReadLine(absl::string_view line) {
    absl::string_view text = line;
    const bool is_flag = absl::ConsumePrefix(&text, "-");
    absl::ConsumePrefix(&text, "-");
    const size_t name_end = text.find_first_of("= \t");
    const absl::string_view name = text.substr(0, name_end);
    if (name_end != absl::string_view::npos && text[name_end] != '=') {
      absl::string_view value = absl::StripLeadingAsciiWhitespace(text.substr(name_end));
      absl::ConsumePrefix(&value, "=");
      return Wrong(line, absl::StrCat("is not a flag; in a file it is --", name, "=",
                                      absl::StripLeadingAsciiWhitespace(value)));
    }
    if (!is_flag) return Wrong(line, absl::StrCat("is not a flag; it is --", text));
    return SetFrom(text);
  }

  // "NAME=VALUE", "SWITCH" or "noSWITCH".
  absl::Status SetFrom(absl::string_view text) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (absl::StrContains(text, '=')) return Set(parts.first, parts.second);
    if (IsSwitch(text)) return Set(text, "true");
    absl::string_view name = text;
    if (absl::ConsumePrefix(&name, "no") && IsSwitch(name)) return Set(name, "false");
    if (!NeedsValue(text)) return Set(text, "");
    return absl::InvalidArgumentError(absl::StrCat("--", text, " lacks its value: --", text, "=…"));
  }

  absl::Status Set(absl::string_view name, absl::string_view value) {
    if (name == "flagfile") {
      for (absl::string_view path : absl::StrSplit(value, ',', absl::SkipEmpty())) {
        GYRE_RETURN_IF_ERROR(ReadFile(std::string(path)));
      }
      // gflags would read the file again.
      FLAGS_flagfile = std::string(value);
      return absl::OkStatus();
    }
    if (name == "fromenv" || name == "tryfromenv") return SetFromEnvironment(name, value);
    return registry_.SetBeforeStart(name, value);
  }

  absl::Status SetFromEnvironment(absl::string_view how, absl::string_view names) {
    for (absl::string_view name : absl::StrSplit(names, ',', absl::SkipEmpty())) {
      const std::string variable = absl::StrCat("FLAGS_", name);
      const char* const value = std::getenv(variable.c_str());
      if (value == nullptr && how == "tryfromenv") continue;
      if (value == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", how, "=", names, ": ", variable, " is not in the environment"));
      }
      GYRE_RETURN_IF_ERROR(Set(name, value), variable);
    }
    return absl::OkStatus();
  }

  const FlagRegistry& registry_;
  int depth_ = 0;
};

}  // namespace

absl::Status ParseCommandLine(const std::vector<std::string>& arguments,
                              const FlagRegistry& registry) {
  return Reader(registry).ReadArguments(arguments);
}

}  // namespace gyre
