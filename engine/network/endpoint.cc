#include "engine/network/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gyre {
namespace {

bool IsIpv6Literal(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsIpv4Literal(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsListenerName(absl::string_view name) {
  if (name.empty()) return false;
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') return false;
  }
  return true;
}

absl::Status Wrong(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("listener \"", text, "\": ", what,
                                                 "; expected NAME://HOST:PORT, for example "
                                                 "PLAINTEXT://127.0.0.1:9092"));
}

// What is well-formed, but not beside another one.
absl::Status Clash(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("listener \"", text, "\": ", what));
}

bool IsEveryAddress(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

absl::Status WrongAddress(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\": ", what, "; expected HOST:PORT, for example 127.0.0.1:9644"));
}

// How an error of one kind of text is put.
using WrongFunction = absl::Status (*)(absl::string_view text, absl::string_view what);

// HOST as it is written, and PORT, of `rest`, which is in `text`.
absl::Status SplitHostPort(absl::string_view text, absl::string_view rest, WrongFunction wrong,
                           Endpoint* endpoint) {
  const size_t colon = rest.rfind(':');
  // The last colon of "[::1]" is the address's.
  if (colon == absl::string_view::npos || (!rest.empty() && rest.back() == ']')) {
    return wrong(text, "no port");
  }
  const absl::string_view port_text = rest.substr(colon + 1);
  int32_t port = 0;
  if (port_text.empty() || !absl::SimpleAtoi(port_text, &port) || port < 0 || port > 65535 ||
      !absl::ascii_isdigit(port_text[0])) {
    return wrong(text, absl::StrCat("port \"", port_text, "\" is not within 0..65535"));
  }
  endpoint->port = static_cast<uint16_t>(port);
  endpoint->host = std::string(rest.substr(0, colon));
  return absl::OkStatus();
}

// NAME, HOST as it is written, and PORT.
absl::StatusOr<Endpoint> Split(absl::string_view text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == absl::string_view::npos) return Wrong(text, "no \"://\"");
  Endpoint endpoint;
  const absl::string_view name = text.substr(0, scheme_end);
  if (!IsListenerName(name)) return Wrong(text, "the name must be letters, digits, '_', '-', '.'");
  endpoint.listener_name = absl::AsciiStrToUpper(name);
  absl::Status status = SplitHostPort(text, text.substr(scheme_end + 3), &Wrong, &endpoint);
  if (!status.ok()) return status;
  return endpoint;
}

// Takes the brackets off an IPv6 literal; false when there are none.
absl::StatusOr<bool> Unbracket(absl::string_view text, WrongFunction wrong, std::string* host) {
  if (host->empty() || host->front() != '[') return false;
  if (host->back() != ']') return wrong(text, "unclosed '['");
  *host = host->substr(1, host->size() - 2);
  if (!IsIpv6Literal(*host)) {
    return wrong(text, absl::StrCat("\"", *host, "\" is not an IPv6 address"));
  }
  return true;
}

// Why a socket cannot listen on the literal `host`; "": it can.
absl::string_view CannotListenOn(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    const uint32_t address = ntohl(v4.s_addr);
    if (address == INADDR_BROADCAST) return "is the broadcast address";
    return IN_MULTICAST(address) ? "is a multicast address" : "";
  }
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return "";
  if (IN6_IS_ADDR_MULTICAST(&v6)) return "is a multicast address";
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return "is an IPv4 address in IPv6's clothes; write it as IPv4";
  return "";
}

// The literal that `host` stands for, which is "" for every address.
absl::Status MakeLiteral(absl::string_view text, WrongFunction wrong, std::string* host) {
  const absl::StatusOr<bool> is_ipv6 = Unbracket(text, wrong, host);
  if (!is_ipv6.ok()) return is_ipv6.status();
  if (const absl::string_view why = CannotListenOn(*host); !why.empty()) {
    return wrong(text, absl::StrCat("\"", *host, "\" ", why));
  }
  if (*is_ipv6) return absl::OkStatus();
  if (*host == "localhost") *host = "127.0.0.1";
  if (host->empty() || IsIpv4Literal(*host)) return absl::OkStatus();
  return wrong(text, absl::StrCat("host \"", *host,
                                  "\" is not an IPv4 address or an IPv6 address in brackets "
                                  "(names are not looked up)"));
}

// RFC 1123, with the underscores that exist all the same.
bool IsHostName(absl::string_view host) {
  if (host.empty() || host.size() > 253 || host.front() == '.' || host.front() == '-') return false;
  for (char c : host) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

}  // namespace

std::string Endpoint::ToString() const {
  if (IsIpv6Literal(host)) return absl::StrCat(listener_name, "://[", host, "]:", port);
  return absl::StrCat(listener_name, "://", host, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  absl::StatusOr<Endpoint> endpoint = Split(text);
  if (!endpoint.ok()) return endpoint;
  absl::Status status = MakeLiteral(text, &Wrong, &endpoint->host);
  if (!status.ok()) return status;
  return endpoint;
}

absl::StatusOr<Endpoint> ParseHostPort(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  Endpoint endpoint;
  absl::Status status = SplitHostPort(text, text, &WrongAddress, &endpoint);
  if (status.ok()) status = MakeLiteral(text, &WrongAddress, &endpoint.host);
  if (!status.ok()) return status;
  return endpoint;
}

bool WantSameAddress(const Endpoint& a, const Endpoint& b) {
  if (a.port == 0 || a.port != b.port) return false;
  if (IsIpv6Literal(a.host) != IsIpv6Literal(b.host)) return false;
  return a.host == b.host || IsEveryAddress(a.host) || IsEveryAddress(b.host);
}

absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(absl::string_view text) {
  std::vector<Endpoint> endpoints;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    absl::StatusOr<Endpoint> endpoint = ParseEndpoint(item);
    if (!endpoint.ok()) return endpoint.status();
    for (const Endpoint& other : endpoints) {
      if (endpoint->listener_name == other.listener_name) {
        return Clash(item, "its name is used twice; each needs one of its own");
      }
      if (WantSameAddress(*endpoint, other)) {
        return Clash(item, absl::StrCat("its address is that of ", other.ToString(),
                                        "; each needs one of its own"));
      }
    }
    endpoints.push_back(*std::move(endpoint));
  }
  return endpoints;
}

absl::StatusOr<Endpoint> ParseAdvertisedEndpoint(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  absl::StatusOr<Endpoint> endpoint = Split(text);
  if (!endpoint.ok()) return endpoint;
  if (endpoint->port == 0) return Wrong(text, "clients cannot be sent to port 0");
  const absl::StatusOr<bool> is_ipv6 = Unbracket(text, &Wrong, &endpoint->host);
  if (!is_ipv6.ok()) return is_ipv6.status();
  if (IsEveryAddress(endpoint->host)) {
    return Wrong(text, "clients cannot be sent to every address; name one");
  }
  if (!*is_ipv6 && !IsHostName(endpoint->host)) {
    return Wrong(text, absl::StrCat("\"", endpoint->host, "\" is no host name or address"));
  }
  return endpoint;
}

absl::StatusOr<std::vector<Endpoint>> ParseAdvertisedEndpoints(absl::string_view text) {
  std::vector<Endpoint> endpoints;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    absl::StatusOr<Endpoint> endpoint = ParseAdvertisedEndpoint(item);
    if (!endpoint.ok()) return endpoint.status();
    for (const Endpoint& other : endpoints) {
      if (endpoint->listener_name == other.listener_name) {
        return Clash(item, "its name is used twice; each needs one of its own");
      }
    }
    endpoints.push_back(*std::move(endpoint));
  }
  return endpoints;
}

uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof(text));
    } else {
      inet_ntop(AF_INET6, &address, text, sizeof(text));
    }
  } else if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text,
              sizeof(text));
  } else {
    return "unknown";
  }
  return text;
}

std::string SocketAddress::ToString() const {
  const std::string host_text = host();
  if (IsIpv6Literal(host_text)) return absl::StrCat("[", host_text, "]:", port());
  return absl::StrCat(host_text, ":", port());
}

bool SocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&address);
  }
  return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
}

AddressKey KeyOf(const SocketAddress& address) {
  AddressKey key = {};
  if (address.storage.ss_family == AF_INET6) {
    std::memcpy(key.data(), &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr,
                16);
  } else if (address.storage.ss_family == AF_INET) {
    key[10] = key[11] = 0xff;
    std::memcpy(key.data() + 12, &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr,
                4);
  }
  return key;
}

std::string PeerAddress::ToString() const {
  SocketAddress whole;
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&whole.storage);
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(port);
  std::memcpy(&in6->sin6_addr, address.data(), address.size());
  return whole.ToString();
}

absl::StatusOr<SocketAddress> ToSocketAddress(const Endpoint& endpoint) {
  SocketAddress address;
  if (IsIpv6Literal(endpoint.host)) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(endpoint.port);
    inet_pton(AF_INET6, endpoint.host.c_str(), &in6->sin6_addr);
    address.size = sizeof(sockaddr_in6);
    return address;
  }
  auto* in4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  in4->sin_family = AF_INET;
  in4->sin_port = htons(endpoint.port);
  const std::string& host = endpoint.host.empty() ? std::string("0.0.0.0") : endpoint.host;
  if (inet_pton(AF_INET, host.c_str(), &in4->sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"", endpoint.host, "\" is not an IP address"));
  }
  address.size = sizeof(sockaddr_in);
  return address;
}

std::string DefaultAdvertisedHost(const Endpoint& bound) {
  if (bound.host.empty() || bound.host == "0.0.0.0") return "127.0.0.1";
  if (bound.host == "::") return "::1";
  return bound.host;
}

}  // namespace gyre
