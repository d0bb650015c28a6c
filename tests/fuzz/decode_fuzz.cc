// Decodes every message and version from arbitrary bytes. Seeds: decode_seeds.
//
//   bazel run --config=fuzz //tests/fuzz:decode_seeds -- /tmp/seeds
//   bazel run --config=fuzz //tests/fuzz:decode_fuzz -- /tmp/seeds
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/decode_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gyre::proto::CheckDecode(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
