#include "engine/network/listener_overrides.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gyre {
namespace {

absl::Status Wrong(absl::string_view entry, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", entry, "\": ", what,
                   "; expected NAME.option=value, where option is num_network_threads, "
                   "max_connections or max_connection_creation_rate"));
}

ListenerOverrides& Of(const std::string& name, std::vector<ListenerOverrides>& overrides) {
  for (ListenerOverrides& known : overrides) {
    if (known.listener_name == name) return known;
  }
  overrides.emplace_back().listener_name = name;
  return overrides.back();
}

// The listener's name, which may have dots, and the option; "" for the name when there is
// none.
std::pair<absl::string_view, absl::string_view> Split(absl::string_view key) {
  if (absl::ConsumePrefix(&key, "listener.name.")) {
    for (const auto& [kafkas, ours] :
         {std::pair(".num.network.threads", "num_network_threads"),
          std::pair(".max.connections", "max_connections"),
          std::pair(".max.connection.creation.rate", "max_connection_creation_rate")}) {
      absl::string_view name = key;
      if (absl::ConsumeSuffix(&name, kafkas)) return {name, ours};
    }
  }
  const size_t dot = key.rfind('.');
  if (dot == absl::string_view::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

}  // namespace

absl::StatusOr<std::vector<ListenerOverrides>> ParseListenerOverrides(absl::string_view text) {
  std::vector<ListenerOverrides> overrides;
  if (absl::StripAsciiWhitespace(text).empty()) return overrides;
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos) return Wrong(entry, "no \"=\"");
    const absl::string_view value_text = entry.substr(equals + 1);
    const auto [name, option] = Split(entry.substr(0, equals));
    if (name.empty()) return Wrong(entry, "no listener's name");
    ListenerOverrides& of_listener = Of(absl::AsciiStrToUpper(name), overrides);
    std::optional<int32_t>* to = nullptr;
    int32_t most = INT32_MAX;
    if (option == "num_network_threads") {
      to = &of_listener.num_network_threads;
      most = 256;
    } else if (option == "max_connections") {
      to = &of_listener.max_connections;
    } else if (option == "max_connection_creation_rate") {
      to = &of_listener.max_connection_creation_rate;
    } else {
      return Wrong(entry, absl::StrCat("\"", option, "\" is no option of a listener"));
    }
    int32_t value = 0;
    if (!absl::SimpleAtoi(value_text, &value) || value < 1 || value > most) {
      return Wrong(entry, absl::StrCat("\"", value_text, "\" is not within 1..", most));
    }
    if (to->has_value()) return Wrong(entry, "given twice");
    *to = value;
  }
  return overrides;
}

absl::Status ApplyListenerOverrides(const std::vector<ListenerOverrides>& overrides,
                                    std::vector<ListenerOptions>* listeners) {
  for (const ListenerOverrides& one : overrides) {
    const auto listener =
        std::find_if(listeners->begin(), listeners->end(), [&](const ListenerOptions& options) {
          return absl::AsciiStrToUpper(options.endpoint.listener_name) == one.listener_name;
        });
    if (listener == listeners->end()) {
      return absl::NotFoundError(absl::StrCat("no listener is named ", one.listener_name));
    }
    listener->num_network_threads = one.num_network_threads;
    listener->max_connections = one.max_connections;
    listener->max_connection_creation_rate = one.max_connection_creation_rate;
  }
  return absl::OkStatus();
}

}  // namespace gyre
