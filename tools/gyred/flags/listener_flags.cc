#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/network/endpoint.h"
#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_string(listeners, "PLAINTEXT://127.0.0.1:9092",
              "NAME://HOST:PORT,… to bind. HOST is an IPv4 or [IPv6] literal, localhost, or empty "
              "for every address; port 0 lets the kernel choose and prints it.");
DEFINE_string(advertised_listeners, "",
              "NAME://HOST:PORT,… that clients are sent to, by listener name. Empty: the bound "
              "address. Needed when clients reach this host under another name.");

namespace gyre {

namespace {

absl::Status ApplyListeners(BrokerServerOptions& options) {
  GYRE_ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints, ParseEndpoints(FLAGS_listeners),
                        "--listeners");
  for (const Endpoint& endpoint : endpoints) {
    // Kafka's own names for protocols that are not plain text.
    const std::string name = absl::AsciiStrToUpper(endpoint.listener_name);
    if (name == "SSL" || name == "SASL_PLAINTEXT" || name == "SASL_SSL") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--listeners: ", endpoint.ToString(),
          " would be served as PLAINTEXT, neither encrypted "
          "nor authenticated; name it PLAINTEXT, or anything but a security protocol"));
    }
    options.network.listeners.emplace_back().endpoint = endpoint;
  }
  return absl::OkStatus();
}

absl::Status ApplyAdvertised(BrokerServerOptions& options) {
  if (FLAGS_advertised_listeners.empty()) return absl::OkStatus();
  for (absl::string_view text : absl::StrSplit(FLAGS_advertised_listeners, ',')) {
    // Clients resolve the name, so any host will do; it only has to be there.
    const size_t separator = text.find("://");
    const size_t colon = text.rfind(':');
    uint32_t port = 0;
    if (separator == absl::string_view::npos || colon <= separator + 3 ||
        !absl::SimpleAtoi(text.substr(colon + 1), &port) || port == 0 || port > 65'535) {
      return BadFlagValue("advertised_listeners", text,
                          "NAME://HOST:PORT with a port from 1 to 65535");
    }
    const absl::string_view name = text.substr(0, separator);
    bool found = false;
    for (ListenerOptions& listener : options.network.listeners) {
      if (listener.endpoint.listener_name != name) continue;
      listener.advertised_host = std::string(text.substr(separator + 3, colon - separator - 3));
      listener.advertised_port = static_cast<uint16_t>(port);
      found = true;
    }
    if (!found) return BadFlagValue("advertised_listeners", text, "named like one of --listeners");
  }
  return absl::OkStatus();
}

absl::Status Apply(BrokerServerOptions& options) {
  GYRE_RETURN_IF_ERROR(ApplyListeners(options));
  return ApplyAdvertised(options);
}

}  // namespace

FlagGroup ListenerFlags() {
  return {"Where it listens, and what clients are told",
          {FlagSpec("listeners"), FlagSpec("advertised_listeners")},
          &Apply};
}

}  // namespace gyre
