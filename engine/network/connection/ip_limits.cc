#include "engine/network/connection/ip_limits.h"

#include <netdb.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gyre {
namespace {

absl::Status Wrong(absl::string_view entry, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", entry, "\": ", what, "; expected HOST:COUNT, for example 10.0.0.7:100 or [::1]:100"));
}

// Every address of a name or literal.
absl::StatusOr<std::vector<AddressKey>> Resolve(absl::string_view entry, const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Wrong(entry, absl::StrCat("host \"", host, "\": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<AddressKey> keys;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    SocketAddress address;
    address.size = info->ai_addrlen;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    keys.push_back(KeyOf(address));
  }
  return keys;
}

}  // namespace

absl::StatusOr<IpLimits> ParseIpLimits(absl::string_view text, int32_t least) {
  IpLimits limits;
  if (absl::StripAsciiWhitespace(text).empty()) return limits;
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    const size_t colon = entry.rfind(':');
    if (colon == absl::string_view::npos) return Wrong(entry, "no \":\"");
    absl::string_view host = entry.substr(0, colon);
    const absl::string_view count_text = entry.substr(colon + 1);
    int32_t count = 0;
    if (!absl::SimpleAtoi(count_text, &count) || count < least) {
      return Wrong(
          entry, absl::StrCat("count \"", count_text, "\" is not within ", least, "..", INT32_MAX));
    }
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    if (host.empty()) return Wrong(entry, "no host");
    absl::StatusOr<std::vector<AddressKey>> keys = Resolve(entry, std::string(host));
    if (!keys.ok()) return keys.status();
    for (const AddressKey& key : *keys) {
      const auto [at, inserted] = limits.emplace(key, count);
      if (!inserted && at->second != count) {
        return Wrong(entry, "another entry gives its address a different count");
      }
    }
  }
  return limits;
}

}  // namespace gyre
