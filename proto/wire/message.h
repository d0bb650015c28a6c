// What the header of a generated message needs, and no more: every handler includes it.
#ifndef GYRE_PROTO_WIRE_MESSAGE_H_
#define GYRE_PROTO_WIRE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/uuid.h"
#include "proto/wire/api_key.h"
#include "proto/wire/error_code.h"
#include "proto/wire/records_view.h"
#include "proto/wire/tagged_fields.h"

namespace gyre::wire {

class Reader;
class Writer;

// The first flexible version of a message that has none.
inline constexpr int16_t kNeverFlexible = INT16_MAX;

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_MESSAGE_H_
