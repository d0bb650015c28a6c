// One input of the decode fuzzer: two bytes choose the message, one the version, the rest
// is its body.
#ifndef GYRE_TESTS_FUZZ_DECODE_CHECK_H_
#define GYRE_TESTS_FUZZ_DECODE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/descriptor.h"

namespace gyre::proto {

// Decodes, encodes and decodes again. Whatever the bytes, nothing may crash, and a message
// that was accepted has to survive its own encoding: violations stop the process. True if
// it was accepted.
bool CheckDecode(absl::string_view input);

// The input for a body of `message`.
std::string DecodeInput(const MessageDescriptor& message, int16_t version, absl::string_view body);

}  // namespace gyre::proto

#endif  // GYRE_TESTS_FUZZ_DECODE_CHECK_H_
