// An HTTP answer as bytes.
//
// Threads: any; pure.
#ifndef GYRE_ENGINE_ADMIN_HTTP_RESPONSE_H_
#define GYRE_ENGINE_ADMIN_HTTP_RESPONSE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/memory/buffer.h"

namespace gyre {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string allow;  // of a 405
};

// `unix_seconds` for the Date header. A HEAD request gets the head alone, with the
// length that the body would have.
Buffer EncodeHttpResponse(const HttpResponse& response, bool head_only, bool keep_alive,
                          int64_t unix_seconds);

// "Not Found"; "" for a status that is not used here.
absl::string_view HttpReason(int status);

}  // namespace gyre

#endif  // GYRE_ENGINE_ADMIN_HTTP_RESPONSE_H_
