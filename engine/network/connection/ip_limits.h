// Kafka's max.connections.per.ip.overrides: "host:count,host:count"; rates are written the
// same way. A host is a name or a literal; an IPv6 one may stand in brackets.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_IP_LIMITS_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_IP_LIMITS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/network/endpoint.h"

namespace gyre {

using IpLimits = absl::flat_hash_map<AddressKey, int32_t>;

// Names are looked up now and never again, every address of a name gets the
// limit, which is `least` or more. So this may take seconds: it is for the controlling
// thread, not for one that runs a ring. INVALID_ARGUMENT names the entry that is wrong,
// and how.
absl::StatusOr<IpLimits> ParseIpLimits(absl::string_view text, int32_t least);
inline absl::StatusOr<IpLimits> ParseIpCounts(absl::string_view text) {
  return ParseIpLimits(text, 0);
}
inline absl::StatusOr<IpLimits> ParseIpRates(absl::string_view text) {
  return ParseIpLimits(text, 1);
}

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_IP_LIMITS_H_
