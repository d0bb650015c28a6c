#include "tests/fuzz/decode_check.h"

#include <cstddef>
#include <memory>

#include "glog/logging.h"
#include "proto/all_messages.h"

namespace gyre::proto {
namespace {

constexpr size_t kPrefix = 3;

uint8_t ByteAt(absl::string_view bytes, size_t index) { return static_cast<uint8_t>(bytes[index]); }

}  // namespace

bool CheckDecode(absl::string_view input) {
  if (input.size() < kPrefix) return false;
  const auto& all = AllMessages();
  const MessageDescriptor& message = *all[(ByteAt(input, 0) << 8 | ByteAt(input, 1)) % all.size()];
  const int versions = message.max_version - message.min_version + 1;
  const int16_t version = static_cast<int16_t>(message.min_version + ByteAt(input, 2) % versions);

  // A heap copy of exactly the body: a sanitizer sees a read past it.
  const size_t size = input.size() - kPrefix;
  const std::unique_ptr<char[]> body(new char[size]);
  input.copy(body.get(), size, kPrefix);
  const RoundTripResult result = message.round_trip(absl::string_view(body.get(), size), version);
  if (!result.decoded) {
    CHECK(result.error != wire::ReadError::kNone) << message.name << " version " << version;
    return false;
  }
  CHECK_LE(result.consumed, size) << message.name << " version " << version;
  CHECK(result.size_exact) << message.name << " version " << version;
  // `stable` rather than `equal`: a NaN is preserved, yet equals nothing.
  CHECK(result.stable) << message.name << " version " << version;
  return true;
}

std::string DecodeInput(const MessageDescriptor& message, int16_t version, absl::string_view body) {
  size_t index = 0;
  while (AllMessages()[index] != &message) ++index;
  std::string input;
  input.push_back(static_cast<char>(index >> 8));
  input.push_back(static_cast<char>(index));
  input.push_back(static_cast<char>(version - message.min_version));
  input.append(body.data(), body.size());
  return input;
}

}  // namespace gyre::proto
