#include "tools/load/report/metrics_page.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace gyre::load {
namespace {

constexpr int kTimeoutSeconds = 5;
constexpr size_t kMaxPageBytes = 32 << 20;

absl::Status Failed(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// The whole response to a GET: the server closes after it (HTTP/1.0).
absl::StatusOr<std::string> Get(const SocketAddress& address, absl::string_view host,
                                absl::string_view path) {
  const UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed("socket");
  const timeval limit = {kTimeoutSeconds, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), address.get(), address.size) != 0) return Failed("connect");
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", host, "\r\nConnection: close\r\n\r\n");
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return Failed("send");
  std::string response;
  char bytes[16384];
  for (;;) {
    const ssize_t got = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("receive");
    if (got == 0) return response;
    response.append(bytes, static_cast<size_t>(got));
    if (response.size() > kMaxPageBytes) return absl::OutOfRangeError("an endless page");
  }
}

}  // namespace

absl::StatusOr<MetricValues> FetchMetrics(const std::string& url, HostNames& hosts,
                                          const std::atomic<bool>& interrupted) {
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "http://")) {
    return absl::InvalidArgumentError(absl::StrCat("\"", url, "\" is not http://HOST:PORT/PATH"));
  }
  const size_t slash = rest.find('/');
  const absl::string_view host_port = rest.substr(0, slash);
  const absl::string_view path =
      slash == absl::string_view::npos ? absl::string_view("/metrics") : rest.substr(slash);
  const size_t colon = host_port.rfind(':');
  int32_t port = 80;
  if (colon != absl::string_view::npos &&
      (!absl::SimpleAtoi(host_port.substr(colon + 1), &port) || port < 1 || port > 65535)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", url, "\": no such port"));
  }
  GYRE_ASSIGN_OR_RETURN(
      const SocketAddress address,
      hosts.Await(std::string(host_port.substr(0, colon)), static_cast<uint16_t>(port),
                  int64_t{kTimeoutSeconds} * 1'000'000'000, interrupted),
      url);
  GYRE_ASSIGN_OR_RETURN(const std::string response, Get(address, host_port, path), url);
  const size_t body = response.find("\r\n\r\n");
  if (!absl::StartsWith(response, "HTTP/1.") || body == std::string::npos ||
      !absl::StrContains(response.substr(0, response.find('\r')), " 200")) {
    return absl::UnavailableError(
        absl::StrCat(url, ": answers ", absl::CHexEscape(response.substr(0, 40))));
  }
  return ParseMetrics(absl::string_view(response).substr(body + 4));
}

MetricValues ParseMetrics(absl::string_view text) {
  MetricValues values;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    // The name ends at its labels' brace, or at the first space.
    const size_t brace = line.rfind('}');
    const size_t end = brace == absl::string_view::npos ? line.find(' ') : brace + 1;
    if (end == absl::string_view::npos) continue;
    const std::vector<absl::string_view> rest =
        absl::StrSplit(line.substr(end), ' ', absl::SkipEmpty());
    double value = 0;
    if (!rest.empty() && absl::SimpleAtod(rest[0], &value) && std::isfinite(value)) {
      values[std::string(line.substr(0, end))] = value;
    }
  }
  return values;
}

std::vector<MetricChange> MetricChanges(const MetricValues& before, const MetricValues& after) {
  std::vector<MetricChange> changes;
  for (const auto& [name, value] : after) {
    const auto found = before.find(name);
    const double earlier = found == before.end() ? 0 : found->second;
    if (value == earlier || absl::StrContains(name, "_bucket{") ||
        absl::StrContains(name, "quantile=")) {
      continue;
    }
    changes.push_back({name, earlier, value});
  }
  return changes;
}

std::vector<MetricMean> MetricMeans(const MetricValues& before, const MetricValues& after) {
  std::vector<MetricMean> means;
  const auto change = [&](const std::string& name) {
    const auto now = after.find(name);
    const auto then = before.find(name);
    return (now == after.end() ? 0 : now->second) - (then == before.end() ? 0 : then->second);
  };
  for (const auto& [name, value] : after) {
    const size_t labels = std::min(name.find('{'), name.size());
    if (!absl::EndsWith(name.substr(0, labels), "_sum")) continue;
    const std::string base = name.substr(0, labels - 4);
    const double count = change(absl::StrCat(base, "_count", name.substr(labels)));
    if (count <= 0) continue;
    means.push_back({absl::StrCat(base, name.substr(labels)), change(name) / count, count});
  }
  return means;
}

}  // namespace gyre::load
