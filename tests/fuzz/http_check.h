// One input of the HTTP fuzzer: the first byte says how its bytes are cut, the rest came
// from a peer.
#ifndef GYRE_TESTS_FUZZ_HTTP_CHECK_H_
#define GYRE_TESTS_FUZZ_HTTP_CHECK_H_

#include "absl/strings/string_view.h"

namespace gyre {

// Violations stop the process. How many requests were answered.
int CheckHttp(absl::string_view input);

}  // namespace gyre

#endif  // GYRE_TESTS_FUZZ_HTTP_CHECK_H_
