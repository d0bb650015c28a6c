// Every message of the schemas, for tests.
#ifndef GYRE_PROTO_ALL_MESSAGES_H_
#define GYRE_PROTO_ALL_MESSAGES_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "proto/descriptor.h"

namespace gyre::proto {

// In a fixed order.
const std::vector<const MessageDescriptor*>& AllMessages();

// By name, such as "FetchRequest" or "TopicRecord"; nullptr if there is none.
const MessageDescriptor* FindMessage(absl::string_view name);

}  // namespace gyre::proto

#endif  // GYRE_PROTO_ALL_MESSAGES_H_
