#include "engine/network/endpoint.h"

#include <string>

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
}

TEST(EndpointTest, AddressesReadAsTheyAreWritten) {
  const SocketAddress v4 = *ToSocketAddress(*ParseEndpoint("P://127.0.0.1:80"));
  EXPECT_EQ(v4.ToString(), "127.0.0.1:80");
  EXPECT_TRUE(v4.is_loopback());
  const SocketAddress v6 = *ToSocketAddress(*ParseEndpoint("P://[2001:db8::1]:80"));
  EXPECT_EQ(v6.ToString(), "[2001:db8::1]:80");
  EXPECT_FALSE(v6.is_loopback());
}

}  // namespace
}  // namespace gyre
