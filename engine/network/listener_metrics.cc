#include "engine/network/listener_metrics.h"

#include "absl/strings/str_cat.h"
#include "engine/metrics/exposition.h"

namespace gyre {

ListenerMetrics::ListenerMetrics(MetricRegistry* registry, absl::string_view listener) {
  if (registry == nullptr) return;
  const auto add = [&](absl::string_view name, absl::string_view help) {
    return registry->AddCounter(absl::StrCat("kafka_server_socket_server_metrics_", name, "_total"),
                                help, MetricLabel("listener", listener));
  };
  accepted = add("connection_accept", "Connections that were accepted and let in.");
  throttled.count = add("connection_accept_throttle",
                        "Times accepting was held up by a creation rate, the server's or the "
                        "listener's.");
  throttled.time_ms =
      add("connection_accept_throttletimems", "For how long in all, in milliseconds.");
  ip_throttled.count = add("ip_connection_accept_throttle",
                           "Connections held up, and then closed, by their address's rate.");
  ip_throttled.time_ms =
      add("ip_connection_accept_throttletimems", "For how long in all, in milliseconds.");
}

}  // namespace gyre
