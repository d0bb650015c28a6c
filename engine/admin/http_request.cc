#include "engine/admin/http_request.h"

#include <http_parser.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace gyre {

namespace {

// What the callbacks write to.
struct Collector {
  const HttpLimits& limits;
  HttpRequest& request;
  std::string url;
  bool value_last = true;  // the last piece was of a header's value
  bool headers_done = false;
  bool message_done = false;
  bool too_long = false;  // a chunked body
};

Collector& CollectorOf(http_parser* parser) { return *static_cast<Collector*>(parser->data); }

int OnUrl(http_parser* parser, const char* at, size_t size) {
  CollectorOf(parser).url.append(at, size);
  return 0;
}

// What comes behind a chunked body is no header of the request, which was judged by then.
int OnHeaderField(http_parser* parser, const char* at, size_t size) {
  Collector& collector = CollectorOf(parser);
  if (collector.headers_done) return 0;
  if (collector.value_last) collector.request.headers.emplace_back();
  collector.value_last = false;
  collector.request.headers.back().first.append(at, size);
  return 0;
}

int OnHeaderValue(http_parser* parser, const char* at, size_t size) {
  Collector& collector = CollectorOf(parser);
  if (collector.headers_done) return 0;
  collector.value_last = true;
  collector.request.headers.back().second.append(at, size);
  return 0;
}

int OnHeadersComplete(http_parser* parser) {
  CollectorOf(parser).headers_done = true;
  // No other protocol is spoken here: an offer to switch is passed over.
  parser->upgrade = 0;
  http_parser_pause(parser, 1);
  return 0;
}

int OnBody(http_parser* parser, const char* at, size_t size) {
  Collector& collector = CollectorOf(parser);
  if (collector.request.body.size() + size > collector.limits.max_body_bytes) {
    collector.too_long = true;
    return 1;
  }
  collector.request.body.append(at, size);
  return 0;
}

int OnMessageComplete(http_parser* parser) {
  CollectorOf(parser).message_done = true;
  http_parser_pause(parser, 1);
  return 0;
}

const http_parser_settings kSettings = [] {
  http_parser_settings settings;
  http_parser_settings_init(&settings);
  settings.on_url = OnUrl;
  settings.on_header_field = OnHeaderField;
  settings.on_header_value = OnHeaderValue;
  settings.on_headers_complete = OnHeadersComplete;
  settings.on_body = OnBody;
  settings.on_message_complete = OnMessageComplete;
  return settings;
}();

void Refuse(int status, const char* reason, HttpRequest& request) {
  request.state = HttpRequest::State::kRefused;
  request.refusal = status;
  request.reason = reason;
  request.keep_alive = false;
}

char HexValue(char c) {
  return static_cast<char>(
      c <= '9' ? c - '0' : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10);
}

// `plus` is what '+' stands for.
std::string Decoded(absl::string_view text, char plus) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out.push_back(plus);
    } else if (text[i] == '%' && i + 2 < text.size() &&
               absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
               absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      out.push_back(static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

void SplitUrl(absl::string_view url, HttpRequest& request) {
  url = url.substr(0, url.find('#'));
  const size_t question = url.find('?');
  absl::string_view path = url.substr(0, question);
  // absolute-form, as proxies send it: the path begins behind the authority.
  if (const size_t scheme = path.find("://");
      scheme != absl::string_view::npos && !absl::StartsWith(path, "/")) {
    const size_t slash = path.find('/', scheme + 3);
    path = slash == absl::string_view::npos ? "/" : path.substr(slash);
  }
  request.path = Decoded(path, '+');
  if (question != absl::string_view::npos) request.query = std::string(url.substr(question + 1));
}

// The head came to no end within `bytes`.
void JudgeOpenHead(absl::string_view bytes, const HttpLimits& limits, HttpRequest& request) {
  const size_t begin = std::min(bytes.find_first_not_of("\r\n"), bytes.size());
  const size_t line_end = bytes.find('\n', begin);
  const size_t line_bytes = (line_end == absl::string_view::npos ? bytes.size() : line_end) - begin;
  if (line_bytes > limits.max_line_bytes) {
    Refuse(414, "the request line is too long", request);
  } else if (bytes.size() > limits.max_head_bytes) {
    Refuse(431, "the headers are too long", request);
  }
}

// Refuses heads of which a proxy in front may think that the body ends elsewhere: what it
// takes for the body would be read as the next request. RFC 9112, 5.1 and 6.
void JudgeFraming(bool chunked, bool has_length, int http_minor, HttpRequest& request) {
  int encodings = 0;
  int hosts = 0;
  for (const auto& [name, value] : request.headers) {
    if (name.find_first_of(" \t") != std::string::npos) {
      return Refuse(400, "a space in a header's name", request);
    }
    if (absl::EqualsIgnoreCase(name, "host")) ++hosts;
    if (!absl::EqualsIgnoreCase(name, "transfer-encoding")) continue;
    // http_parser takes a list that ends in chunked, too.
    if (++encodings > 1 || !absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(value), "chunked")) {
      return Refuse(501, "chunked is the only transfer encoding here", request);
    }
  }
  if (chunked != (encodings == 1) || (chunked && (has_length || http_minor == 0))) {
    return Refuse(400, "how long the body is cannot be told", request);
  }
  if (!chunked && !has_length && (request.method == "POST" || request.method == "PUT")) {
    return Refuse(411, "say how long the body is", request);
  }
  // RFC 9112, 3.2.
  if (hosts > 1 || (hosts == 0 && http_minor > 0)) {
    Refuse(400, "HTTP/1.1 needs a Host header, and one", request);
  }
}

}  // namespace

absl::string_view HttpRequest::Header(absl::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (absl::EqualsIgnoreCase(field, name)) return absl::StripAsciiWhitespace(value);
  }
  return "";
}

std::string HttpRequest::Parameter(absl::string_view name) const {
  for (auto& [key, value] : ParseForm(query)) {
    if (key == name) return value;
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> ParseForm(absl::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (absl::string_view pair : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    pairs.emplace_back(
        Decoded(pair.substr(0, equals), ' '),
        equals == absl::string_view::npos ? "" : Decoded(pair.substr(equals + 1), ' '));
  }
  return pairs;
}

HttpRequest ParseHttpRequest(absl::string_view bytes, const HttpLimits& limits) {
  HttpRequest request;
  Collector collector{limits, request};
  http_parser parser;
  http_parser_init(&parser, HTTP_REQUEST);
  parser.data = &collector;

  const absl::string_view head = bytes.substr(0, size_t{limits.max_head_bytes} + 1);
  const size_t parsed = http_parser_execute(&parser, &kSettings, head.data(), head.size());
  // Known from the first byte behind it, so that a refused HEAD gets no body either.
  if (!collector.url.empty()) {
    request.method = http_method_str(static_cast<http_method>(parser.method));
  }
  if (!collector.headers_done) {
    JudgeOpenHead(head, limits, request);
    if (request.state == HttpRequest::State::kNeedMore && HTTP_PARSER_ERRNO(&parser) != HPE_OK) {
      Refuse(400, "this is no HTTP request", request);
    }
    return request;
  }
  // Paused at the last byte of the head.
  const size_t head_bytes = parsed + 1;
  const size_t line_begin = head.find_first_not_of("\r\n");
  const size_t line_bytes = head.find('\n', line_begin) - line_begin;
  if (line_bytes > limits.max_line_bytes) {
    Refuse(414, "the request line is too long", request);
    return request;
  }
  if (head_bytes > limits.max_head_bytes) {
    Refuse(431, "the headers are too long", request);
    return request;
  }
  SplitUrl(collector.url, request);
  if (parser.http_major != 1) {
    Refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here", request);
    return request;
  }
  request.keep_alive = http_should_keep_alive(&parser) != 0;
  const bool chunked = (parser.flags & F_CHUNKED) != 0;
  const bool has_length = (parser.flags & F_CONTENTLENGTH) != 0;
  JudgeFraming(chunked, has_length, parser.http_minor, request);
  if (request.state == HttpRequest::State::kRefused) return request;
  if (!request.Header("expect").empty()) {
    // The body is not waited for: who expects an answer first gets this one.
    Refuse(417, "send the body without asking first", request);
    return request;
  }
  if (request.method == "CONNECT") {
    Refuse(405, "this is no proxy", request);
    return request;
  }
  if (!chunked) {
    const uint64_t body_bytes = has_length ? parser.content_length : 0;
    if (body_bytes > limits.max_skipped_body_bytes) {
      Refuse(413, "the body is too long", request);
      return request;
    }
    if (body_bytes > limits.max_body_bytes) {
      // It is read to its end, so the connection may go on.
      request.refusal = 413;
      request.reason = "the body is too long";
    }
    request.frame_bytes = head_bytes + static_cast<size_t>(body_bytes);
    if (bytes.size() < request.frame_bytes) return request;
    request.state = HttpRequest::State::kComplete;
    if (request.refusal == 0) {
      request.body = std::string(bytes.substr(head_bytes, static_cast<size_t>(body_bytes)));
    }
    return request;
  }
  http_parser_pause(&parser, 0);
  const size_t more =
      http_parser_execute(&parser, &kSettings, bytes.data() + parsed, bytes.size() - parsed);
  const bool ends = collector.message_done && !collector.too_long;
  if (collector.too_long || (!ends && HTTP_PARSER_ERRNO(&parser) == HPE_OK &&
                             bytes.size() >= limits.max_undecided_bytes())) {
    Refuse(413, "the body is too long", request);
  } else if (ends) {
    request.state = HttpRequest::State::kComplete;
    request.frame_bytes = parsed + more;
  } else if (HTTP_PARSER_ERRNO(&parser) != HPE_OK) {
    Refuse(400, "the chunked body is malformed", request);
  }
  return request;
}

}  // namespace gyre
