#include "engine/admin/http_response.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace gyre {

absl::string_view HttpReason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

Buffer EncodeHttpResponse(const HttpResponse& response, bool head_only, bool keep_alive,
                          int64_t unix_seconds) {
  const std::string date = absl::FormatTime(
      "%a, %d %b %Y %H:%M:%S GMT", absl::FromUnixSeconds(unix_seconds), absl::UTCTimeZone());
  const std::string allow =
      response.allow.empty() ? "" : absl::StrCat("Allow: ", response.allow, "\r\n");
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", response.status, " ", HttpReason(response.status), "\r\nDate: ", date,
      "\r\nContent-Type: ", response.content_type, "\r\nContent-Length: ", response.body.size(),
      "\r\n", allow, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: ",
      keep_alive ? "keep-alive" : "close", "\r\n\r\n");
  return Buffer::CopyOf(absl::StrCat(head, head_only ? "" : response.body));
}

}  // namespace gyre
