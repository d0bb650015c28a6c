#include "proto/all_messages.h"

#include "absl/types/span.h"

namespace gyre::proto {

// One per generated source: together they are too much for one compilation.
absl::Span<const MessageDescriptor> DescriptorsOf_api_1();
absl::Span<const MessageDescriptor> DescriptorsOf_api_2();
absl::Span<const MessageDescriptor> DescriptorsOf_api_3();
absl::Span<const MessageDescriptor> DescriptorsOf_records();

const std::vector<const MessageDescriptor*>& AllMessages() {
  static const auto* const kAll = [] {
    auto* all = new std::vector<const MessageDescriptor*>;
    for (const auto part : {DescriptorsOf_api_1(), DescriptorsOf_api_2(), DescriptorsOf_api_3(),
                            DescriptorsOf_records()}) {
      for (const MessageDescriptor& message : part) all->push_back(&message);
    }
    return all;
  }();
  return *kAll;
}

const MessageDescriptor* FindMessage(absl::string_view name) {
  for (const MessageDescriptor* message : AllMessages()) {
    if (message->name == name) return message;
  }
  return nullptr;
}

}  // namespace gyre::proto
