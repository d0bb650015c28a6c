#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/endpoint.h"
#include "engine/network/listener_overrides.h"
#include "engine/network/socket_server.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_string(listeners, "PLAINTEXT://127.0.0.1:9092",
              "NAME://HOST:PORT,… to bind. HOST is an IPv4 or [IPv6] literal, localhost, or empty "
              "for every IPv4 address, as 0.0.0.0 is; [::] is every IPv6 address, and no IPv4 one. "
              "Port 0 lets the kernel choose and prints it.");
DEFINE_string(advertised_listeners, "",
              "NAME://HOST:PORT,… that clients are sent to, by listener name. Empty: the bound "
              "address. Needed when clients reach this host under another name.");
DEFINE_string(listener_overrides, "",
              "NAME.option=value,… for one listener, where option is num_network_threads, "
              "max_connections or max_connection_creation_rate. Kafka's spelling is understood, "
              "too: listener.name.NAME.num.network.threads=3.");
DEFINE_string(inter_broker_listener_name, "",
              "The listener that brokers use: the server's max_connections and creation rate do "
              "not hold it back.");
DEFINE_string(control_plane_listener_name, "",
              "A listener with a request queue and a handler of its own, which answers while the "
              "others are full. Protected like that of brokers.");
DEFINE_string(accept_mode, "acceptor",
              "acceptor: one thread per listener accepts and gives each connection to the "
              "processor that has the fewest. reuseport: every processor accepts for itself "
              "(SO_REUSEPORT), as the kernel spreads them.");

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

ListenerOptions* Find(BrokerServerOptions& options, absl::string_view name) {
  for (ListenerOptions& listener : options.network.listeners) {
    if (listener.endpoint.listener_name == absl::AsciiStrToUpper(name)) return &listener;
  }
  return nullptr;
}

absl::Status ApplyAdvertised(BrokerServerOptions& options) {
  if (FLAGS_advertised_listeners.empty()) return absl::OkStatus();
  GYRE_ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints,
                        ParseAdvertisedEndpoints(FLAGS_advertised_listeners),
                        "--advertised_listeners");
  for (const Endpoint& endpoint : endpoints) {
    ListenerOptions* const listener = Find(options, endpoint.listener_name);
    if (listener == nullptr) {
      return BadFlagValue("advertised_listeners", endpoint.ToString(),
                          "named like one of --listeners");
    }
    listener->advertised_host = endpoint.host;
    listener->advertised_port = endpoint.port;
  }
  return absl::OkStatus();
}

absl::Status ApplyRoles(BrokerServerOptions& options) {
  const auto find = [&](const char* flag, const std::string& name,
                        ListenerOptions** to) -> absl::Status {
    if (name.empty()) return absl::OkStatus();
    *to = Find(options, name);
    if (*to == nullptr) return BadFlagValue(flag, name, "the name of one of --listeners");
    return absl::OkStatus();
  };
  ListenerOptions* control = nullptr;
  ListenerOptions* inter_broker = nullptr;
  GYRE_RETURN_IF_ERROR(
      find("control_plane_listener_name", FLAGS_control_plane_listener_name, &control));
  GYRE_RETURN_IF_ERROR(
      find("inter_broker_listener_name", FLAGS_inter_broker_listener_name, &inter_broker));
  if (control != nullptr && (control == inter_broker || options.network.listeners.size() == 1)) {
    return BadFlagValue("control_plane_listener_name", FLAGS_control_plane_listener_name,
                        "a listener beside that of clients and that of brokers");
  }
  if (control != nullptr) control->privileged = true;
  if (inter_broker != nullptr) inter_broker->inter_broker = true;
  return absl::OkStatus();
}

absl::Status Apply(BrokerServerOptions& options) {
  GYRE_RETURN_IF_ERROR(ApplyListeners(options));
  GYRE_RETURN_IF_ERROR(ApplyAdvertised(options));
  GYRE_RETURN_IF_ERROR(ApplyRoles(options));
  CHECK(ParseAcceptMode(FLAGS_accept_mode, &options.network.accept_mode));  // one of the choices
  GYRE_ASSIGN_OR_RETURN(const std::vector<ListenerOverrides> overrides,
                        ParseListenerOverrides(FLAGS_listener_overrides), "--listener_overrides");
  return Annotate(ApplyListenerOverrides(overrides, &options.network.listeners),
                  "--listener_overrides");
}

absl::Status SetOverrides(BrokerServer& server) {
  return Annotate(server.network().SetListenerOverrides(FLAGS_listener_overrides),
                  "--listener_overrides");
}

}  // namespace

FlagGroup ListenerFlags() {
  return {"Where it listens, and what clients are told",
          {
              FlagSpec("listeners"),
              FlagSpec("advertised_listeners"),
              FlagSpec("listener_overrides").Live(&SetOverrides),
              FlagSpec("inter_broker_listener_name"),
              FlagSpec("control_plane_listener_name"),
              FlagSpec("accept_mode").OneOf({"acceptor", "reuseport"}),
          },
          &Apply};
}

}  // namespace gyre
