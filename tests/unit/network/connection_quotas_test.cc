// What Kafka's ConnectionQuotasTest asserts, and what goes beyond it.
#include "engine/network/connection/connection_quotas.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/network/endpoint.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using Verdict = ConnectionQuotas::Verdict;
using Token = ConnectionQuotas::Token;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMs;
constexpr int kExternal = 0;
constexpr int kAdmin = 1;
constexpr int kInterBroker = 2;

SocketAddress From(const char* host, uint16_t port = 1) {
  return *ToSocketAddress(Endpoint{"P", host, port});
}

struct RoomCount : ConnectionQuotas::RoomListener {
  void OnConnectionRoom() override { ++calls; }
  int calls = 0;
};

struct ExcessCount : ConnectionQuotas::ExcessListener {
  void OnExcessConnections() override { ++calls; }
  int calls = 0;
};

ConnectionQuotaOptions ThreeListeners() {
  ConnectionQuotaOptions options;
  options.creation_burst_seconds = 1;
  options.listeners = {ListenerQuota{.name = "EXTERNAL"}, ListenerQuota{.name = "ADMIN"},
                       ListenerQuota{.name = "REPLICATION", .is_protected = true}};
  return options;
}

// Quotas with a clock and the tokens of those who were admitted.
class Server {
 public:
  explicit Server(ConnectionQuotaOptions options) : quotas(std::move(options)) {}

  ConnectionQuotas::Decision Connect(int listener, const char* host = "10.0.0.1") {
    Token token;
    const auto decision =
        quotas.Admit(listener, From(host), now_ns, /*was_held=*/false, &room, &token);
    if (decision.verdict == Verdict::kAdmitted) tokens.push_back(std::move(token));
    return decision;
  }
  Verdict Try(int listener, const char* host = "10.0.0.1") {
    return Connect(listener, host).verdict;
  }
  // Connects `per_second` times a second for `seconds`, waiting out what the
  // quotas say when `waits`. How many were admitted.
  int Storm(int listener, const char* host, int per_second, int seconds) {
    const int64_t end_ns = now_ns + seconds * kSecond;
    int admitted = 0;
    while (now_ns < end_ns) {
      if (Try(listener, host) == Verdict::kAdmitted) ++admitted;
      now_ns += kSecond / per_second;
    }
    return admitted;
  }

  RoomCount room;
  ExcessCount excess;
  ConnectionQuotas quotas;
  int64_t now_ns = 1000 * kSecond;
  std::vector<Token> tokens;
};

// --- no limits --------------------------------------------------------------------------

TEST(ConnectionQuotasTest, TheBusiestAddressesAreKnown) {
  Server server(ThreeListeners());
  for (int i = 1; i <= 30; ++i) {
    const std::string host = absl::StrCat("10.0.0.", i);
    // Most from 10.0.0.30.
    for (int n = 0; n < i; ++n) EXPECT_EQ(server.Try(kExternal, host.c_str()), Verdict::kAdmitted);
  }
  const auto busiest = server.quotas.BusiestAddresses(3);
  ASSERT_EQ(busiest.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(busiest[static_cast<size_t>(i)].accepted, 30 - i);
    EXPECT_EQ(busiest[static_cast<size_t>(i)].address,
              KeyOf(From(absl::StrCat("10.0.0.", 30 - i).c_str())));
  }
  EXPECT_EQ(server.quotas.BusiestAddresses(100).size(), 30u);
  server.tokens.clear();
  EXPECT_TRUE(server.quotas.BusiestAddresses(3).empty());
}

TEST(ConnectionQuotasTest, ByDefaultNothingIsLimited) {
  Server server(ThreeListeners());
  for (int listener : {kExternal, kAdmin, kInterBroker}) {
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(server.Try(listener), Verdict::kAdmitted);
    EXPECT_EQ(server.quotas.connections_of(listener), 10'000);
    EXPECT_GE(server.quotas.AskRoom(listener, server.now_ns, nullptr).count, 1'000'000);
  }
  server.tokens.clear();
  EXPECT_EQ(server.quotas.total(), 0);
  EXPECT_EQ(server.quotas.addresses(), 0u);
}

// --- one address ------------------------------------------------------------------------

TEST(ConnectionQuotasTest, TheAddressBeyondItsMaximumIsRefusedAndOthersAreNot) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections_per_ip = 2;
  Server server(options);
  EXPECT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kAdmin), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kExternal), Verdict::kAddressFull);
  EXPECT_EQ(server.Try(kInterBroker), Verdict::kAddressFull);
  EXPECT_EQ(server.Try(kExternal, "10.0.0.2"), Verdict::kAdmitted);
  EXPECT_EQ(server.quotas.connections_from(KeyOf(From("10.0.0.1"))), 2);
  server.tokens.erase(server.tokens.begin());
  EXPECT_EQ(server.Try(kExternal), Verdict::kAdmitted);
}

TEST(ConnectionQuotasTest, AnOverrideIsForOneAddressAndForBothItsFamilies) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections_per_ip = 1;
  options.max_connections_per_ip_overrides = *ParseIpCounts("10.0.0.7:3,[::1]:0");
  Server server(options);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(server.Try(kExternal, "10.0.0.7"), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kExternal, "::ffff:10.0.0.7"), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kExternal, "10.0.0.7"), Verdict::kAddressFull);
  EXPECT_EQ(server.Try(kExternal, "::1"), Verdict::kAddressFull);
  EXPECT_EQ(server.Try(kExternal, "10.0.0.8"), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kExternal, "10.0.0.8"), Verdict::kAddressFull);
}

TEST(ConnectionQuotasTest, BelowItsRateAnAddressIsNeverRefused) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate_per_ip = 30;
  Server server(options);
  EXPECT_EQ(server.Storm(kExternal, "10.0.0.1", 25, 8), 25 * 8);
}

TEST(ConnectionQuotasTest, AboveItsRateAnAddressIsHeldToIt) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate_per_ip = 20;
  Server server(options);
  // A burst of one second's worth, and then the rate.
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.1", 200, 10), 20 + 20 * 10, 2);
  EXPECT_EQ(server.Try(kExternal, "10.0.0.2"), Verdict::kAdmitted);
  while (server.Try(kExternal) == Verdict::kAdmitted) {
  }
  const auto refused = server.Connect(kExternal);
  ASSERT_EQ(refused.verdict, Verdict::kAddressRateExceeded);
  EXPECT_GT(refused.delay_ns, 0);
  EXPECT_LE(refused.delay_ns, kSecond);
}

TEST(ConnectionQuotasTest, WhoIsRefusedUsesUpNothingOfOthersRates) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate = 40;
  options.listeners[kExternal].max_connection_creation_rate = 30;
  options.max_connection_creation_rate_per_ip = 10;
  Server server(options);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) refused += server.Try(kExternal) != Verdict::kAdmitted;
  EXPECT_EQ(refused, 990);
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, nullptr).count, 20);
  EXPECT_EQ(server.quotas.AskRoom(kAdmin, server.now_ns, nullptr).count, 30);
}

TEST(ConnectionQuotasTest, TheRatesOfAnAddressAndAListenerHoldTogether) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.listeners[kExternal].max_connection_creation_rate = 30;
  options.max_connection_creation_rate_per_ip = 10;
  Server server(options);
  int admitted[5] = {};
  for (int ms = 0; ms < 10'000; ms += 5, server.now_ns += 5 * kMs) {
    for (int i = 0; i < 5; ++i) {
      admitted[i] +=
          server.Try(kExternal, absl::StrCat("10.0.0.", i).c_str()) == Verdict::kAdmitted;
    }
  }
  int total = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_LE(admitted[i], 10 + 10 * 10 + 1);
    total += admitted[i];
  }
  EXPECT_NEAR(total, 30 + 30 * 10, 3);
}

TEST(ConnectionQuotasTest, AnAddressAtItsMaximumThatTriesOnAndOnMeetsItsRate) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections_per_ip = 1;
  options.max_connection_creation_rate_per_ip = 5;
  Server server(options);
  ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(server.Try(kExternal), Verdict::kAddressFull);
  EXPECT_EQ(server.Try(kExternal), Verdict::kAddressRateExceeded);
}

TEST(ConnectionQuotasTest, AddressesAtRestAreForgotten) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate_per_ip = 100;
  Server server(options);
  for (int i = 0; i < 100'000; ++i) {
    const std::string host = absl::StrCat("10.", i >> 16, ".", (i >> 8) & 255, ".", i & 255);
    ASSERT_EQ(server.Try(kExternal, host.c_str()), Verdict::kAdmitted);
    server.tokens.clear();
    server.now_ns += kMs;
  }
  EXPECT_LT(server.quotas.remembered_addresses(), 3'000u);
  EXPECT_EQ(server.quotas.addresses(), 0u);
}

TEST(ConnectionQuotasTest, AddressesThatAreOnlyRefusedAreForgottenToo) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections_per_ip = 0;
  options.max_connections_per_ip_overrides = *ParseIpCounts("10.200.0.1:1");
  options.max_connection_creation_rate_per_ip = 100;
  Server server(options);
  for (int i = 0; i < 20'000; ++i) {
    const std::string host = absl::StrCat("10.0.", (i >> 8) & 255, ".", i & 255);
    ASSERT_EQ(server.Try(kExternal, host.c_str()), Verdict::kAddressFull);
    server.now_ns += kMs;
  }
  EXPECT_LT(server.quotas.remembered_addresses(), 3'000u);
}

// --- maxima of server and listener ---------------------------------------------------------

TEST(ConnectionQuotasTest, AtTheServersMaximumOnlyAProtectedListenerGoesOn) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 3;
  Server server(options);
  server.quotas.SetExcessListener(&server.excess);
  for (int listener : {kExternal, kAdmin, kExternal}) {
    ASSERT_EQ(server.Try(listener), Verdict::kAdmitted);
  }
  EXPECT_EQ(server.Try(kExternal), Verdict::kFull);
  EXPECT_EQ(server.Try(kAdmin), Verdict::kFull);
  EXPECT_EQ(server.excess.calls, 0);
  EXPECT_EQ(server.Try(kInterBroker), Verdict::kAdmitted);
  EXPECT_EQ(server.excess.calls, 1);

  // One is too many: one is shed, by whoever asks first.
  EXPECT_TRUE(server.tokens[0].TryShed());
  EXPECT_FALSE(server.tokens[0].TryShed());
  EXPECT_FALSE(server.tokens[1].TryShed());
  EXPECT_EQ(server.Try(kExternal), Verdict::kFull);
  server.tokens.erase(server.tokens.begin());
  EXPECT_EQ(server.Try(kExternal), Verdict::kFull) << "the protected one has its place";
  EXPECT_FALSE(server.tokens[0].TryShed());
  server.tokens.erase(server.tokens.begin());
  EXPECT_EQ(server.Try(kExternal), Verdict::kAdmitted);
}

TEST(ConnectionQuotasTest, EachListenerStopsAtItsOwnMaximumTheProtectedOneToo) {
  ConnectionQuotaOptions options = ThreeListeners();
  for (int i = 0; i < 3; ++i) options.listeners[i].max_connections = 2 + i;
  Server server(options);
  for (int listener : {kInterBroker, kAdmin, kExternal}) {
    for (int i = 0; i < 2 + listener; ++i) ASSERT_EQ(server.Try(listener), Verdict::kAdmitted);
    EXPECT_EQ(server.Try(listener), Verdict::kFull);
    EXPECT_EQ(server.quotas.AskRoom(listener, server.now_ns, nullptr).count, 0);
  }
}

TEST(ConnectionQuotasTest, AProtectedListenerWithoutAMaximumHasTheServers) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 2;
  Server server(options);
  ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(server.Try(kInterBroker), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kInterBroker), Verdict::kFull);
}

TEST(ConnectionQuotasTest, WhoWaitsIsToldOnceWhenThereIsRoom) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 2;
  Server server(options);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kExternal), Verdict::kFull);
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, &server.room).count, 0);
  server.tokens.pop_back();
  EXPECT_EQ(server.room.calls, 1);
  server.tokens.pop_back();
  EXPECT_EQ(server.room.calls, 1);
  EXPECT_EQ(server.quotas.total(), 0);
}

TEST(ConnectionQuotasTest, AForgottenWaiterIsNotTold) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 1;
  Server server(options);
  ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  ASSERT_EQ(server.Try(kExternal), Verdict::kFull);
  server.quotas.ForgetWaiter(&server.room);
  server.tokens.clear();
  EXPECT_EQ(server.room.calls, 0);
}

TEST(ConnectionQuotasTest, HeldSocketsGoBeforeNewOnes) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 1;
  Server server(options);
  ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  server.quotas.Hold(kExternal);
  server.tokens.clear();
  EXPECT_EQ(server.Try(kExternal), Verdict::kFull) << "the room is the held one's";
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, nullptr).count, 0);
  Token token;
  EXPECT_EQ(
      server.quotas
          .Admit(kExternal, From("10.0.0.9"), server.now_ns, /*was_held=*/true, nullptr, &token)
          .verdict,
      Verdict::kAdmitted);
  EXPECT_EQ(server.quotas.held(), 0);
}

TEST(ConnectionQuotasTest, WhenAHeldSocketIsLetGoTheOthersAreTold) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 1;
  Server server(options);
  server.quotas.Hold(kExternal);
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, &server.room).count, 0);
  server.quotas.LetGo(kExternal, 1);
  EXPECT_EQ(server.room.calls, 1);
  EXPECT_EQ(server.Try(kExternal), Verdict::kAdmitted);
}

// --- rates of server and listener ----------------------------------------------------------

TEST(ConnectionQuotasTest, BelowTheServersRateNobodyWaits) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate = 125;
  Server server(options);
  for (int i = 0; i < 400; ++i) {
    for (int listener : {kExternal, kAdmin}) {
      ASSERT_EQ(server.Try(listener), Verdict::kAdmitted);
    }
    server.now_ns += 20 * kMs;  // two every 20 ms: 100 a second
  }
}

TEST(ConnectionQuotasTest, AboveTheServersRateAllButTheProtectedListenerAreHeldToIt) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate = 90;
  options.listeners[kInterBroker].max_connection_creation_rate = ConnectionQuotaOptions::kUnlimited;
  Server server(options);
  int unprotected = 0;
  for (int ms = 0; ms < 10'000; ms += 5, server.now_ns += 5 * kMs) {
    for (int listener : {kExternal, kAdmin}) {
      const auto decision = server.Connect(listener);
      if (decision.verdict == Verdict::kAdmitted) {
        ++unprotected;
      } else {
        ASSERT_EQ(decision.verdict, Verdict::kRateExceeded);
        ASSERT_LE(decision.delay_ns, kSecond);
      }
    }
    ASSERT_EQ(server.Try(kInterBroker), Verdict::kAdmitted);
  }
  EXPECT_NEAR(unprotected, 90 + 90 * 10, 5);
}

TEST(ConnectionQuotasTest, EachListenerIsHeldToItsOwnRate) {
  ConnectionQuotaOptions options = ThreeListeners();
  for (int i = 0; i < 3; ++i) options.listeners[i].max_connection_creation_rate = 30 + 10 * i;
  Server server(options);
  int admitted[3] = {};
  for (int ms = 0; ms < 10'000; ms += 5, server.now_ns += 5 * kMs) {
    for (int i = 0; i < 3; ++i) admitted[i] += server.Try(i) == Verdict::kAdmitted;
  }
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(admitted[i], (30 + 10 * i) * 11, 4);
}

TEST(ConnectionQuotasTest, WhoWaitsOutTheDelayIsAdmitted) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate = 10;
  Server server(options);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, &server.room).count, 0);
  for (int i = 0; i < 50; ++i) {
    const auto refused = server.Connect(kExternal);
    ASSERT_EQ(refused.verdict, Verdict::kRateExceeded);
    server.now_ns += refused.delay_ns - 1;
    ASSERT_EQ(server.Try(kExternal), Verdict::kRateExceeded) << "a nanosecond too early";
    server.now_ns += 1;
    ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  }
  EXPECT_EQ(server.room.calls, 0) << "a rate is waited for by the clock";
}

TEST(ConnectionQuotasTest, RoomIsTheLeastThatMaximaAndRatesLeave) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 20;
  options.max_connection_creation_rate = 8;
  options.listeners[kAdmin].max_connections = 5;
  Server server(options);
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, nullptr).count, 8);
  EXPECT_EQ(server.quotas.AskRoom(kAdmin, server.now_ns, nullptr).count, 5);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  const ConnectionQuotas::Room none = server.quotas.AskRoom(kExternal, server.now_ns, &server.room);
  EXPECT_EQ(none.count, 0);
  EXPECT_GT(none.delay_ns, 0);
  server.now_ns += none.delay_ns;
  EXPECT_EQ(server.quotas.AskRoom(kExternal, server.now_ns, nullptr).count, 1);
}

TEST(ConnectionQuotasTest, CountAndRateLimitsHoldTogether) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 25;
  options.max_connection_creation_rate = 10;
  Server server(options);
  EXPECT_EQ(server.Storm(kExternal, "10.0.0.1", 100, 10), 25);
  EXPECT_EQ(server.Try(kExternal), Verdict::kFull);
}

// --- changes at run time -----------------------------------------------------------------------

TEST(ConnectionQuotasTest, EverySetterRefusesWhatIsOutOfRangeAndChangesNothing) {
  Server server(ThreeListeners());
  ConnectionQuotas& quotas = server.quotas;
  const int64_t too_much = int64_t{INT32_MAX} + 1;
  for (int64_t value : {int64_t{-1}, int64_t{0}, too_much}) {
    EXPECT_FALSE(quotas.SetMaxConnections(value).ok()) << value;
    EXPECT_FALSE(quotas.SetMaxConnectionCreationRate(value).ok()) << value;
    EXPECT_FALSE(quotas.SetMaxConnectionCreationRatePerIp(value).ok()) << value;
    EXPECT_FALSE(quotas.SetListenerMaxConnections("ADMIN", value).ok()) << value;
    EXPECT_FALSE(quotas.SetListenerMaxConnectionCreationRate("ADMIN", value).ok()) << value;
  }
  const absl::Status refused = quotas.SetListenerMaxConnectionCreationRate("ADMIN", 0);
  EXPECT_EQ(refused.message(),
            "ADMIN.max_connection_creation_rate=0 is not valid; it must be from 1 to 2147483647");
  EXPECT_FALSE(quotas.SetMaxConnectionsPerIp(0).ok()) << "0 needs overrides";
  EXPECT_FALSE(quotas.SetMaxConnectionsPerIp(-1).ok());
  EXPECT_FALSE(
      quotas.SetMaxConnectionCreationRatePerIpOverrides(*ParseIpCounts("10.0.0.9:0")).ok());
  EXPECT_EQ(quotas.SetListenerMaxConnections("NONE", 1).code(), absl::StatusCode::kNotFound);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(server.Try(i), Verdict::kAdmitted);

  ASSERT_TRUE(quotas.SetMaxConnectionsPerIpOverrides(*ParseIpCounts("10.0.0.1:9")).ok());
  ASSERT_TRUE(quotas.SetMaxConnectionsPerIp(0).ok());
  EXPECT_EQ(server.Try(kExternal, "10.0.0.2"), Verdict::kAddressFull);
  EXPECT_EQ(server.Try(kExternal, "10.0.0.1"), Verdict::kAdmitted);
  EXPECT_FALSE(quotas.SetMaxConnectionsPerIpOverrides({}).ok());
}

TEST(ConnectionQuotasTest, ALoweredMaximumShedsExactlyTheExcess) {
  Server server(ThreeListeners());
  server.quotas.SetExcessListener(&server.excess);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  ASSERT_TRUE(server.quotas.SetMaxConnections(6).ok());
  EXPECT_EQ(server.excess.calls, 1);
  int shed = 0;
  for (Token& token : server.tokens) shed += token.TryShed();
  EXPECT_EQ(shed, 4);
  server.tokens.erase(std::remove_if(server.tokens.begin(), server.tokens.end(),
                                     [](const Token& token) { return token.shed(); }),
                      server.tokens.end());
  EXPECT_EQ(server.quotas.total(), 6);
  for (Token& token : server.tokens) EXPECT_FALSE(token.TryShed());
}

TEST(ConnectionQuotasTest, AFullListenerThatShedsGivesOnePlaceToEachThatWaits) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.listeners[kAdmin].max_connections = 3;
  options.listeners[kAdmin].sheds_when_full = true;
  Server server(options);
  ConnectionQuotas& quotas = server.quotas;
  quotas.SetExcessListener(&server.excess);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(server.Try(kAdmin), Verdict::kAdmitted);
  ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  EXPECT_FALSE(server.tokens[0].TryShed()) << "nobody waits";
  // One is accepted beyond the maximum, to see whether there is one.
  EXPECT_EQ(quotas.AskRoom(kAdmin, server.now_ns, &server.room).count, 1);
  ASSERT_EQ(server.Try(kAdmin), Verdict::kFull);
  quotas.Hold(kAdmin);
  EXPECT_EQ(server.excess.calls, 1);
  EXPECT_EQ(quotas.AskRoom(kAdmin, server.now_ns, &server.room).count, 0) << "one at a time";
  EXPECT_FALSE(server.tokens[3].TryShed()) << "another listener's place is no use";
  EXPECT_TRUE(server.tokens[1].TryShed());
  EXPECT_FALSE(server.tokens[0].TryShed()) << "one place for one that waits";
  server.tokens.erase(server.tokens.begin() + 1);
  EXPECT_EQ(server.room.calls, 1);
  Token token;
  EXPECT_EQ(
      quotas.Admit(kAdmin, From("10.0.0.1"), server.now_ns, /*was_held=*/true, &server.room, &token)
          .verdict,
      Verdict::kAdmitted);
  EXPECT_EQ(quotas.connections_of(kAdmin), 3);
  EXPECT_FALSE(server.tokens[0].TryShed());
  EXPECT_EQ(quotas.AskRoom(kAdmin, server.now_ns, &server.room).count, 1);
  // A listener that lets them wait sheds nobody.
  quotas.Hold(kExternal);
  EXPECT_EQ(server.excess.calls, 1);
}

TEST(ConnectionQuotasTest, WhoWaitsWhileAnotherIsHeldIsCalledWhenThatOneIsAdmitted) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.listeners[kAdmin].max_connections = 1;
  options.listeners[kAdmin].sheds_when_full = true;
  Server server(options);
  RoomCount second_acceptor;
  ASSERT_EQ(server.Try(kAdmin), Verdict::kAdmitted);
  ASSERT_EQ(server.Try(kAdmin), Verdict::kFull);
  server.quotas.Hold(kAdmin);
  ASSERT_TRUE(server.tokens[0].TryShed());
  server.tokens.clear();
  EXPECT_EQ(server.room.calls, 1);
  ASSERT_EQ(server.Try(kAdmin), Verdict::kFull) << "the one that is held goes first";
  EXPECT_EQ(server.quotas.AskRoom(kAdmin, server.now_ns, &second_acceptor).count, 0);
  Token token;
  ASSERT_EQ(server.quotas
                .Admit(kAdmin, From("10.0.0.1"), server.now_ns, /*was_held=*/true, nullptr, &token)
                .verdict,
            Verdict::kAdmitted);
  EXPECT_EQ(second_acceptor.calls, 1);
}

TEST(ConnectionQuotasTest, ARaisedMaximumIsRoomForWhoWaits) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 1;
  options.listeners[kAdmin].max_connections = 1;
  Server server(options);
  ASSERT_EQ(server.Try(kAdmin), Verdict::kAdmitted);
  ASSERT_EQ(server.Try(kAdmin), Verdict::kFull);
  ASSERT_TRUE(server.quotas.SetMaxConnections(10).ok());
  EXPECT_EQ(server.room.calls, 1);
  ASSERT_EQ(server.Try(kAdmin), Verdict::kFull) << "its own maximum stands";
  ASSERT_TRUE(server.quotas.SetListenerMaxConnections("ADMIN", 2).ok());
  EXPECT_EQ(server.room.calls, 2);
  EXPECT_EQ(server.Try(kAdmin), Verdict::kAdmitted);
  EXPECT_EQ(server.Try(kAdmin), Verdict::kFull);
  ASSERT_TRUE(server.quotas.SetListenerMaxConnections("ADMIN", std::nullopt).ok());
  EXPECT_EQ(server.Try(kAdmin), Verdict::kAdmitted);
}

TEST(ConnectionQuotasTest, ARateMayChangeToAndFromUnlimited) {
  Server server(ThreeListeners());
  ConnectionQuotas& quotas = server.quotas;
  ASSERT_TRUE(quotas.SetMaxConnectionCreationRate(50).ok());
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.1", 500, 5), 50 * 6, 3);
  ASSERT_TRUE(quotas.SetMaxConnectionCreationRate(ConnectionQuotaOptions::kUnlimited).ok());
  EXPECT_EQ(server.Storm(kExternal, "10.0.0.1", 500, 5), 2500);
  ASSERT_TRUE(quotas.SetListenerMaxConnectionCreationRate("EXTERNAL", 20).ok());
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.1", 500, 5), 20 * 6, 3);
  EXPECT_EQ(server.Storm(kAdmin, "10.0.0.1", 500, 5), 2500);
  ASSERT_TRUE(quotas.SetListenerMaxConnectionCreationRate("EXTERNAL", std::nullopt).ok());
  EXPECT_EQ(server.Storm(kExternal, "10.0.0.1", 500, 5), 2500);
}

TEST(ConnectionQuotasTest, ARateOfMoreThanOneInANanosecondLimitsNobody) {
  Server server(ThreeListeners());
  ASSERT_TRUE(server.quotas.SetMaxConnectionCreationRate(INT32_MAX - 1).ok());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  EXPECT_GT(server.quotas.AskRoom(kExternal, server.now_ns, &server.room).count, 1'000);
}

TEST(ConnectionQuotasTest, ALoweredRateKeepsNobodyWaitingLongerThanASecond) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate = 1000;
  options.creation_burst_seconds = 10;
  Server server(options);
  while (server.Try(kExternal) == Verdict::kAdmitted) {
  }
  ASSERT_TRUE(server.quotas.SetMaxConnectionCreationRate(1).ok());
  const auto refused = server.Connect(kExternal);
  ASSERT_EQ(refused.verdict, Verdict::kRateExceeded);
  EXPECT_LE(refused.delay_ns, kSecond);
  server.now_ns += kSecond;
  EXPECT_EQ(server.Try(kExternal), Verdict::kAdmitted);
}

TEST(ConnectionQuotasTest, TheRateOfAnAddressFollowsDefaultOverrideAndRemoval) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connection_creation_rate_per_ip = 20;
  Server server(options);
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.1", 500, 5), 20 * 6, 3);
  const auto override_rates = [&](const char* text) {
    return server.quotas.SetMaxConnectionCreationRatePerIpOverrides(*ParseIpRates(text)).ok();
  };
  ASSERT_TRUE(override_rates("10.0.0.1:60"));
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.1", 500, 5), 60 * 5, 5);
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.2", 500, 5), 20 * 6, 3);
  ASSERT_TRUE(server.quotas.SetMaxConnectionCreationRatePerIp(40).ok());
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.2", 500, 5), 40 * 5, 5);
  ASSERT_TRUE(override_rates(""));
  server.now_ns += 10 * kSecond;
  EXPECT_NEAR(server.Storm(kExternal, "10.0.0.1", 500, 5), 40 * 6, 3);
}

// --- tokens -----------------------------------------------------------------------------------

TEST(ConnectionQuotasTest, AMovedTokenReleasesOnce) {
  Server server(ThreeListeners());
  ASSERT_EQ(server.Try(kExternal), Verdict::kAdmitted);
  Token a = std::move(server.tokens[0]);
  Token b = std::move(a);
  a = Token();
  server.tokens.clear();
  EXPECT_EQ(server.quotas.total(), 1);
  b = Token();
  EXPECT_EQ(server.quotas.total(), 0);
  EXPECT_EQ(server.quotas.addresses(), 0u);
}

TEST(ConnectionQuotasTest, CountsAreExactUnderConcurrentAdmissionReleaseAndChange) {
  ConnectionQuotaOptions options = ThreeListeners();
  options.max_connections = 40;
  options.max_connections_per_ip = 15;
  ConnectionQuotas quotas(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&quotas, t] {
      const char* const hosts[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
      std::vector<Token> tokens(15);
      for (int i = 0; i < 2000; ++i) {
        Token& token = tokens[static_cast<size_t>(i) % tokens.size()];
        token.Release();
        quotas.Admit((t + i) % 3, From(hosts[i % 3]), i, false, nullptr, &token);
        token.TryShed();
        if (i % 100 == 0) EXPECT_TRUE(quotas.SetMaxConnections(20 + i % 30).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(quotas.total(), 0);
  EXPECT_EQ(quotas.addresses(), 0u);
  EXPECT_EQ(quotas.remembered_addresses(), 0u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(quotas.connections_of(i), 0);
}

// --- overrides as text ---------------------------------------------------------------------

TEST(IpLimitsTest, NamesLiteralsAndBothFamilies) {
  const absl::StatusOr<IpLimits> limits =
      ParseIpCounts(" 127.0.0.2:5 , [fe80::1]:6,fe80::2:7,localhost:8");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(limits->at(KeyOf(From("127.0.0.2"))), 5);
  EXPECT_EQ(limits->at(KeyOf(From("fe80::1"))), 6);
  EXPECT_EQ(limits->at(KeyOf(From("fe80::2"))), 7);
  EXPECT_EQ(limits->at(KeyOf(From("127.0.0.1"))), 8);
  EXPECT_TRUE(ParseIpCounts("")->empty());
}

TEST(IpLimitsTest, EachWrongEntryIsNamed) {
  for (const char* text :
       {"10.0.0.1", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:-1", ":5", "10.0.0.1:99999999999",
        "10.0.0.1:5,,10.0.0.2:5", "10.0.0.1:5,10.0.0.1:6", "[10.0.0:5"}) {
    const absl::StatusOr<IpLimits> limits = ParseIpCounts(text);
    EXPECT_EQ(limits.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(limits.status().message().find("HOST:COUNT"), absl::string_view::npos)
        << limits.status();
  }
  EXPECT_TRUE(ParseIpCounts("10.0.0.1:0").ok());
  EXPECT_FALSE(ParseIpRates("10.0.0.1:0").ok());
}

}  // namespace
}  // namespace gyre
