#include "engine/network/endpoint.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(EndpointTest, ReadsNameHostAndPort) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint("PLAINTEXT://127.0.0.1:9092");
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ(endpoint->listener_name, "PLAINTEXT");
  EXPECT_EQ(endpoint->host, "127.0.0.1");
  EXPECT_EQ(endpoint->port, 9092);
  EXPECT_EQ(endpoint->ToString(), "PLAINTEXT://127.0.0.1:9092");
}

TEST(EndpointTest, AnIpv6HostStandsInBrackets) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint("internal://[::1]:0");
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ(endpoint->listener_name, "INTERNAL");
  EXPECT_EQ(endpoint->host, "::1");
  EXPECT_EQ(endpoint->port, 0);
  EXPECT_EQ(endpoint->ToString(), "INTERNAL://[::1]:0");
}

TEST(EndpointTest, LocalhostIsALiteral) {
  EXPECT_EQ(ParseEndpoint("PLAINTEXT://localhost:1")->host, "127.0.0.1");
}

TEST(EndpointTest, AnEmptyHostIsEveryAddress) {
  const Endpoint endpoint = *ParseEndpoint("PLAINTEXT://:9092");
  EXPECT_EQ(endpoint.host, "");
  EXPECT_EQ(ToSocketAddress(endpoint)->host(), "0.0.0.0");
  EXPECT_EQ(DefaultAdvertisedHost(endpoint), "127.0.0.1");
}

TEST(EndpointTest, WrongTextSaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no \"://\""},
      {"127.0.0.1:9092", "no \"://\""},
      {"://127.0.0.1:9092", "the name must be"},
      {"A B://127.0.0.1:9092", "the name must be"},
      {"P://127.0.0.1", "no port"},
      {"P://127.0.0.1:", "port \"\""},
      {"P://127.0.0.1:65536", "0..65535"},
      {"P://127.0.0.1:-1", "0..65535"},
      {"P://127.0.0.1:+1", "0..65535"},
      {"P://127.0.0.1:9x", "0..65535"},
      {"P://example.org:1", "not looked up"},
      {"P://[::1:1", "unclosed"},
      {"P://[::1]", "no port"},
      {"P://[]:1", "not an IPv6"},
      {"P://", "no port"},
      {"P:/127.0.0.1:1", "no \"://\""},
      {"P://127.0.0.1:1:2", "not an IPv4"},
      {"P://127.0.0.1 :1", "not an IPv4"},
      {"P://127.0.0.256:1", "not an IPv4"},
      {"P://127.0.0.1:99999999999", "0..65535"},
      {"P://[zz]:1", "not an IPv6"},
      {"P://::1:1", "not an IPv4"},
  };
  for (const auto& [text, part] : cases) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_NE(std::string(endpoint.status().message()).find(part), std::string::npos)
        << endpoint.status();
  }
}

TEST(EndpointTest, AListNeedsDifferentNamesAndAddresses) {
  EXPECT_EQ(ParseEndpoints("A://127.0.0.1:0, B://127.0.0.1:0")->size(), 2u);
  EXPECT_FALSE(ParseEndpoints("A://127.0.0.1:1,a://127.0.0.1:2").ok());
  EXPECT_FALSE(ParseEndpoints("A://127.0.0.1:1,B://127.0.0.1:1").ok());
  EXPECT_FALSE(ParseEndpoints("A://127.0.0.1:1,").ok());
  EXPECT_FALSE(ParseEndpoints("").ok());
  // Every address includes each of its family.
  EXPECT_FALSE(ParseEndpoints("A://:1,B://127.0.0.1:1").ok());
  EXPECT_FALSE(ParseEndpoints("A://[::1]:1,B://[::]:1").ok());
  EXPECT_TRUE(ParseEndpoints("A://0.0.0.0:1,B://[::]:1").ok());
  EXPECT_TRUE(ParseEndpoints("A://127.0.0.1:1,B://127.0.0.2:1").ok());
  EXPECT_EQ(ParseEndpoints("A://127.0.0.1:1,B://127.0.0.1:1").status().message(),
            "listener \"B://127.0.0.1:1\": its address is that of A://127.0.0.1:1; each needs one "
            "of its own");
}

TEST(EndpointTest, AnAddressAloneHasNoName) {
  const absl::StatusOr<Endpoint> endpoint = ParseHostPort(" [::1]:9644 ");
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ(endpoint->listener_name, "");
  EXPECT_EQ(endpoint->host, "::1");
  EXPECT_EQ(endpoint->port, 9644);
  EXPECT_EQ(ParseHostPort("localhost:0")->host, "127.0.0.1");
  EXPECT_EQ(ParseHostPort(":1")->host, "");
  for (const char* wrong : {"", "foo", "127.0.0.1", "foo:1", "127.0.0.1:99999", "[::1]", "[::1:2",
                            "ADMIN://127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"}) {
    const absl::StatusOr<Endpoint> refused = ParseHostPort(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_NE(refused.status().message().find("; expected HOST:PORT, for example"),
              absl::string_view::npos)
        << refused.status();
    EXPECT_EQ(refused.status().message().find("NAME"), absl::string_view::npos) << refused.status();
  }
}

TEST(EndpointTest, WhatIsAdvertisedMayBeAName) {
  const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseAdvertisedEndpoints(
      "internal://broker-1.example.org:9092, EXTERNAL://[2001:db8::1]:443,C://10.0.0.1:1");
  ASSERT_TRUE(endpoints.ok()) << endpoints.status();
  EXPECT_EQ((*endpoints)[0].listener_name, "INTERNAL");
  EXPECT_EQ((*endpoints)[0].host, "broker-1.example.org");
  EXPECT_EQ((*endpoints)[0].port, 9092);
  EXPECT_EQ((*endpoints)[1].host, "2001:db8::1");
  EXPECT_EQ((*endpoints)[2].host, "10.0.0.1");
}

TEST(EndpointTest, WhatClientsCannotBeSentToIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no \"://\""},
      {"P://host:0", "port 0"},
      {"P://host", "no port"},
      {"P://:9092", "every address"},
      {"P://0.0.0.0:9092", "every address"},
      {"P://[::]:9092", "every address"},
      {"P://[::1:9092", "unclosed"},
      {"P://::1:9092", "no host name"},
      {"P://a b:9092", "no host name"},
      {"P://a/b:9092", "no host name"},
      {"P://a:9092,P://b:9092", "used twice"},
  };
  for (const auto& [text, part] : cases) {
    const absl::StatusOr<std::vector<Endpoint>> endpoints = ParseAdvertisedEndpoints(text);
    ASSERT_FALSE(endpoints.ok()) << text;
    EXPECT_NE(std::string(endpoints.status().message()).find(part), std::string::npos)
        << endpoints.status();
  }
}

TEST(EndpointTest, AddressesReadAsTheyAreWritten) {
  const SocketAddress v4 = *ToSocketAddress(*ParseEndpoint("P://127.0.0.1:80"));
  EXPECT_EQ(v4.ToString(), "127.0.0.1:80");
  EXPECT_TRUE(v4.is_loopback());
  const SocketAddress v6 = *ToSocketAddress(*ParseEndpoint("P://[2001:db8::1]:80"));
  EXPECT_EQ(v6.ToString(), "[2001:db8::1]:80");
  EXPECT_FALSE(v6.is_loopback());
}

TEST(EndpointTest, WhatNoSocketListensOnIsRefused) {
  for (const char* host : {"224.0.0.1", "239.255.255.255", "255.255.255.255", "[ff02::1]",
                           "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"}) {
    EXPECT_FALSE(ParseEndpoint(absl::StrCat("A://", host, ":9092")).ok()) << host;
    EXPECT_FALSE(ParseHostPort(absl::StrCat(host, ":9644")).ok()) << host;
  }
  for (const char* host : {"223.255.255.255", "240.0.0.1", "[fe00::1]", "[::]", "[::1]", ""}) {
    EXPECT_TRUE(ParseEndpoint(absl::StrCat("A://", host, ":9092")).ok()) << host;
  }
}

}  // namespace
}  // namespace gyre
