// Options of single listeners, as text: "NAME.option=value,…", or as Kafka writes it,
// "listener.name.NAME.an.option=value". The options are num_network_threads,
// max_connections and max_connection_creation_rate; what is not overridden is the
// server's.
#ifndef GYRE_ENGINE_NETWORK_LISTENER_OVERRIDES_H_
#define GYRE_ENGINE_NETWORK_LISTENER_OVERRIDES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/network/server_options.h"

namespace gyre {

struct ListenerOverrides {
  std::string listener_name;
  std::optional<int32_t> num_network_threads;
  std::optional<int32_t> max_connections;
  std::optional<int32_t> max_connection_creation_rate;
};

// One for each listener that is named, in the order of their first mention. Names are
// matched without case. INVALID_ARGUMENT says which part is wrong and what it may be.
absl::StatusOr<std::vector<ListenerOverrides>> ParseListenerOverrides(absl::string_view text);

// Puts them into `listeners`. NOT_FOUND for a name that none of them has.
absl::Status ApplyListenerOverrides(const std::vector<ListenerOverrides>& overrides,
                                    std::vector<ListenerOptions>* listeners);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_LISTENER_OVERRIDES_H_
