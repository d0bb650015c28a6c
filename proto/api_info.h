// The versions of every api, and which header each version goes with.
//
// These are the versions that the schemas describe. What a server offers is its own
// choice, and never more.
#ifndef GYRE_PROTO_API_INFO_H_
#define GYRE_PROTO_API_INFO_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/wire/api_key.h"
#include "proto/wire/message.h"

namespace gyre::proto {

struct ApiInfo {
  ApiKey key;
  bool removed = false;  // only the number is left: no versions, no messages
  int16_t min_version = 0;
  int16_t max_version = -1;
  int16_t first_flexible_version = wire::kNeverFlexible;
  bool max_version_unstable = false;  // Kafka does not offer max_version by default
  bool on_broker_listener = false;
  bool on_controller_listener = false;
};

// All apis, ordered by number without gaps.
absl::Span<const ApiInfo> AllApis();

// nullptr for a number that no api has or that was removed.
const ApiInfo* FindApi(ApiKey key);

// Whether bodies of this version are flexible. Versions above max_version follow it;
// unlisted and removed apis are not flexible.
bool IsFlexible(ApiKey key, int16_t version);

// 2 for flexible requests, else 1.
int16_t RequestHeaderVersion(ApiKey key, int16_t version);

// 1 for flexible responses, else 0. The responses to ApiVersions have header 0 always: a
// client reads them before it knows what the server speaks.
int16_t ResponseHeaderVersion(ApiKey key, int16_t version);

}  // namespace gyre::proto

#endif  // GYRE_PROTO_API_INFO_H_
