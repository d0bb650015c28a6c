#include "engine/admin/admin_handler.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/network/request/request.h"
#include "nlohmann/json.hpp"

namespace gyre {

namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kFlagsPrefix = "/flags/";
constexpr size_t kDefaultConnections = 1000;
constexpr size_t kMaxConnections = 100'000;

constexpr char kIndex[] =
    "gyre admin\n\n"
    "  GET /metrics      Prometheus text\n"
    "  GET /health       200 while the process is well\n"
    "  GET /ready        200 while clients are served\n"
    "  GET /flags        every flag; ?format=json, or text\n"
    "  PUT /flags/NAME   a new value for a live flag: curl -X PUT -d VALUE\n"
    "  POST /flags       the same: curl -d NAME=VALUE, or {\"NAME\": VALUE} as application/json\n"
    "  GET /connections  JSON; ?limit=N\n"
    "  GET /version      JSON\n";

HttpResponse Text(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(text);
  return response;
}

HttpResponse ErrorText(int status, absl::string_view reason) {
  return Text(status, absl::StrCat(status, " ", HttpReason(status), ": ", reason, "\n"));
}

HttpResponse JsonPage(const Json& json) {
  HttpResponse response;
  response.content_type = "application/json";
  // Strings come from clients: what is no UTF-8 is replaced, not thrown at.
  response.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

HttpResponse NotAllowed(std::string allow) {
  HttpResponse response = ErrorText(405, absl::StrCat("this page takes ", allow));
  response.allow = std::move(allow);
  return response;
}

bool WantsJson(const HttpRequest& request) {
  const std::string format = request.Parameter("format");
  if (!format.empty()) return format == "json";
  return absl::StrContains(request.Header("accept"), "application/json");
}

bool IsRead(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

bool IsLoopback(absl::string_view peer) {
  return absl::StartsWith(peer, "127.") || absl::StartsWith(peer, "[::1]:") ||
         absl::StartsWith(peer, "[::ffff:127.");
}

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return 503;
    default:
      return 500;
  }
}

HttpResponse FlagsAsJson(const std::vector<AdminFlag>& flags) {
  Json list = Json::array();
  for (const AdminFlag& flag : flags) {
    list.push_back(Json{{"name", flag.name},
                        {"group", flag.group},
                        {"type", flag.type},
                        {"value", flag.value},
                        {"default", flag.default_value},
                        {"live", flag.live},
                        {"unit", flag.unit},
                        {"good_values", flag.good_values},
                        {"help", flag.help}});
  }
  return JsonPage(list);
}

HttpResponse FlagsAsText(const std::vector<AdminFlag>& flags) {
  std::string text;
  std::string group;
  for (const AdminFlag& flag : flags) {
    if (flag.group != group) {
      group = flag.group;
      absl::StrAppend(&text, text.empty() ? "" : "\n", "# ", group, "\n");
    }
    absl::StrAppend(&text, flag.name, "=", flag.value);
    std::vector<std::string> notes;
    if (flag.value != flag.default_value) {
      notes.push_back(
          absl::StrCat("default ", flag.default_value.empty() ? "\"\"" : flag.default_value));
    }
    if (!flag.good_values.empty()) notes.push_back(flag.good_values);
    if (flag.live) notes.push_back("live");
    if (!notes.empty()) absl::StrAppend(&text, "  # ", absl::StrJoin(notes, "; "));
    text.push_back('\n');
  }
  return Text(200, std::move(text));
}

// The one name and value that a write carries; a message about what is wrong otherwise.
std::string ReadFlagWrite(const HttpRequest& request, std::string* name, std::string* value) {
  if (absl::StartsWith(request.path, kFlagsPrefix)) {
    *name = request.path.substr(kFlagsPrefix.size());
    *value = std::string(absl::StripAsciiWhitespace(request.body));
    return "";
  }
  if (absl::StrContains(request.Header("content-type"), "application/json")) {
    const Json json = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.size() != 1) return "the body must be {\"NAME\": VALUE}";
    *name = json.begin().key();
    const Json& member = json.begin().value();
    if (member.is_string()) {
      *value = member.get_ref<const std::string&>();
    } else if (member.is_number() || member.is_boolean()) {
      *value = member.dump();
    } else {
      return "a flag's value is a string, a number, true or false";
    }
    return "";
  }
  const auto pairs = ParseForm(absl::StripAsciiWhitespace(request.body));
  if (pairs.size() != 1) return "the body must be one NAME=VALUE";
  *name = pairs[0].first;
  *value = pairs[0].second;
  return "";
}

}  // namespace

bool ParseAdminWrites(absl::string_view text, AdminWrites* out) {
  if (text == "loopback") {
    *out = AdminWrites::kLoopback;
  } else if (text == "any") {
    *out = AdminWrites::kAny;
  } else if (text == "none") {
    *out = AdminWrites::kNone;
  } else {
    return false;
  }
  return true;
}

AdminHandler::AdminHandler(AdminSource& source, const HttpLimits& limits, AdminWrites writes,
                           const Clock& clock, MetricRegistry* metrics)
    : source_(source), limits_(limits), writes_(writes), clock_(clock) {
  if (metrics == nullptr) return;
  requests_ = metrics->AddCounter("gyre_admin_requests_total", "HTTP requests that were answered.");
  refused_ =
      metrics->AddCounter("gyre_admin_refused_total", "Of these, with a status from 400 on.");
}

void AdminHandler::Start(RequestPtr request) {
  HttpRequest http = ParseHttpRequest(request->frame(), limits_);
  if (http.state == HttpRequest::State::kNeedMore) {
    http.refusal = 408;
    http.reason = "the request took too long";
    http.keep_alive = false;
  }
  const HttpResponse response = http.refusal != 0
                                    ? ErrorText(http.refusal, http.reason)
                                    : Answer(http, request->session().peer.ToString());
  requests_.Increment();
  if (response.status >= 400) refused_.Increment();
  NetworkSend send(EncodeHttpResponse(response, http.method == "HEAD", http.keep_alive,
                                      clock_.WallTimeMs() / 1000));
  if (http.keep_alive) {
    request.Reply(std::move(send));
  } else {
    request.ReplyThenClose(std::move(send));
  }
}

HttpResponse AdminHandler::Answer(const HttpRequest& request, absl::string_view peer) {
  const std::string& path = request.path;
  if (path == "/flags" || absl::StartsWith(path, kFlagsPrefix)) return Flags(request, peer);
  const bool known = path == "/" || path == "/metrics" || path == "/health" || path == "/ready" ||
                     path == "/connections" || path == "/version";
  if (!known) return ErrorText(404, "there is no such page; GET / names them");
  if (!IsRead(request)) return NotAllowed("GET, HEAD");
  if (path == "/metrics") {
    HttpResponse response = Text(200, source_.Metrics());
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  }
  if (path == "/health" || path == "/ready") {
    const absl::Status status = path == "/health" ? source_.Health() : source_.Ready();
    if (status.ok()) return Text(200, path == "/health" ? "well\n" : "ready\n");
    return Text(503, absl::StrCat(status.message(), "\n"));
  }
  if (path == "/connections") return Connections(request);
  if (path == "/version") return Version(request);
  return Text(200, kIndex);
}

HttpResponse AdminHandler::Flags(const HttpRequest& request, absl::string_view peer) {
  if (request.method == "POST" && request.path == "/flags") return SetFlag(request, peer);
  if (request.method == "PUT" && request.path != "/flags") return SetFlag(request, peer);
  if (!IsRead(request)) {
    return NotAllowed(request.path == "/flags" ? "GET, HEAD, POST" : "GET, HEAD, PUT");
  }
  const std::string format = request.Parameter("format");
  if (!format.empty() && format != "json" && format != "text") {
    return ErrorText(400, "format must be json or text");
  }
  std::vector<AdminFlag> flags = source_.Flags();
  if (request.path != "/flags") {
    const std::string name = request.path.substr(kFlagsPrefix.size());
    std::vector<AdminFlag> one;
    for (AdminFlag& flag : flags) {
      if (flag.name == name) one.push_back(std::move(flag));
    }
    if (one.empty()) return ErrorText(404, "there is no such flag; GET /flags names them");
    flags = std::move(one);
  }
  return WantsJson(request) ? FlagsAsJson(flags) : FlagsAsText(flags);
}

HttpResponse AdminHandler::SetFlag(const HttpRequest& request, absl::string_view peer) {
  if (writes_ == AdminWrites::kNone) {
    return ErrorText(403, "flags cannot be set over HTTP (--admin_writes=none)");
  }
  if (writes_ == AdminWrites::kLoopback && !IsLoopback(peer)) {
    return ErrorText(403, "flags are set from this host only (--admin_writes=any allows more)");
  }
  if (!request.Header("origin").empty()) {
    return ErrorText(403, "flags are not set from a web page");
  }
  std::string name;
  std::string value;
  if (const std::string wrong = ReadFlagWrite(request, &name, &value); !wrong.empty()) {
    return ErrorText(400, wrong);
  }
  absl::Status status;
  if (writes_under_way_.fetch_add(1, std::memory_order_relaxed) < kMaxWritesUnderWay) {
    status = source_.SetFlag(name, value);
  } else {
    status = absl::UnavailableError("other flags are being changed; try again");
  }
  writes_under_way_.fetch_sub(1, std::memory_order_relaxed);
  if (!status.ok()) {
    return ErrorText(HttpStatusOf(status), status.message());
  }
  return Text(200, absl::StrCat(name, "=", value, "\n"));
}

HttpResponse AdminHandler::Connections(const HttpRequest& request) {
  size_t limit = kDefaultConnections;
  if (const std::string text = request.Parameter("limit"); !text.empty()) {
    if (!absl::SimpleAtoi(text, &limit) || limit > kMaxConnections) {
      return ErrorText(400, absl::StrCat("limit must be from 0 to ", kMaxConnections));
    }
  }
  int64_t open_count = 0;
  const std::vector<ConnectionInfo> connections = source_.Connections(limit, &open_count);
  Json list = Json::array();
  for (const ConnectionInfo& connection : connections) {
    list.push_back(Json{{"peer", connection.peer},
                        {"listener", connection.listener},
                        {"principal", connection.principal},
                        {"client_id", connection.client_id},
                        {"client_software_name", connection.client_software_name},
                        {"client_software_version", connection.client_software_version},
                        {"state", connection.state},
                        {"processor", connection.processor},
                        {"in_flight", connection.in_flight},
                        {"age_ms", connection.age_ms},
                        {"idle_ms", connection.idle_ms},
                        {"requests", connection.requests},
                        {"received_bytes", connection.received_bytes},
                        {"sent_bytes", connection.sent_bytes}});
  }
  return JsonPage(Json{{"open", open_count}, {"connections", std::move(list)}});
}

HttpResponse AdminHandler::Version(const HttpRequest&) {
  const AdminVersion version = source_.Version();
  return JsonPage(Json{{"program", version.program},
                       {"version", version.version},
                       {"kernel", version.kernel},
                       {"io_uring", version.io_uring},
                       {"start_time_unix_ms", version.start_time_unix_ms}});
}

}  // namespace gyre
