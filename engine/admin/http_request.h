// One HTTP/1.x request from bytes: what the admin listener understands of HTTP, parsed
// by http_parser. Whatever comes in, the answer is a request, "more bytes", or the
// status to refuse it with.
//
// Threads: any; pure.
#ifndef GYRE_ENGINE_ADMIN_HTTP_REQUEST_H_
#define GYRE_ENGINE_ADMIN_HTTP_REQUEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace gyre {

struct HttpLimits {
  uint32_t max_line_bytes = 2 * 1024;  // the request line; beyond it: 414
  uint32_t max_head_bytes = 8 * 1024;  // line and headers; beyond it: 431
  uint32_t max_body_bytes = 8 * 1024;  // beyond it: 413
  // A longer body than max_body_bytes with a Content-Length up to this is read to its
  // end before it is refused, so that the client sees the answer and may go on.
  uint32_t max_skipped_body_bytes = 1024 * 1024;

  // What a request may take before it is decided: head, chunks and their framing.
  uint32_t max_undecided_bytes() const { return max_head_bytes + 2 * max_body_bytes; }
  // What it may take in all, and so be to its server.
  int64_t max_request_bytes() const {
    const int64_t skipped_bytes = int64_t{max_head_bytes} + max_skipped_body_bytes;
    return std::max<int64_t>(skipped_bytes, max_undecided_bytes() + 1);
  }
};

struct HttpRequest {
  enum class State : uint8_t {
    kNeedMore,  // `frame_bytes` says how many in all, when it is not 0
    kComplete,  // the request is the first `frame_bytes`
    kRefused,   // `refusal` is the status; where the next request begins is not known
  };

  State state = State::kNeedMore;
  size_t frame_bytes = 0;
  // An HTTP status, with the reason in one line. Set in kRefused, and in kComplete where
  // the request was read to its end but will not be served (413).
  int refusal = 0;
  const char* reason = "";

  std::string method;                                        // "GET"
  std::string path;                                          // decoded, without the query
  std::string query;                                         // without '?'
  std::vector<std::pair<std::string, std::string>> headers;  // trailers are none
  std::string body;
  bool keep_alive = false;

  // The value of the first header of that name, in any case; "" without one.
  absl::string_view Header(absl::string_view name) const;
  // A parameter of the query (name=value&…), decoded; "" without one.
  std::string Parameter(absl::string_view name) const;
};

// Looks at the first request in `bytes`. kRefused is final for these bytes and any
// that begin with them.
HttpRequest ParseHttpRequest(absl::string_view bytes, const HttpLimits& limits);

// name=value&name=value, with %xx and '+' decoded; a name without '=' has an empty value.
std::vector<std::pair<std::string, std::string>> ParseForm(absl::string_view text);

}  // namespace gyre

#endif  // GYRE_ENGINE_ADMIN_HTTP_REQUEST_H_
