// The admin listener's HTTP from arbitrary bytes, cut where the first byte says: the
// decoder always comes to a verdict that the handler's own parse agrees with, and
// whatever it hands over is answered. Seeds: http_seeds.
//
//   tools/dev/fuzz 60 //tests/fuzz:http_fuzz
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/http_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gyre::CheckHttp(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
