#include "engine/network/connection_quotas.h"

#include <thread>
#include <vector>

#include "engine/network/endpoint.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

SocketAddress From(const char* host, uint16_t port = 1) {
  return *ToSocketAddress(Endpoint{"P", host, port});
}

struct Room : ConnectionQuotas::RoomListener {
  void OnConnectionRoom() override { ++calls; }
  int calls = 0;
};

using Verdict = ConnectionQuotas::Verdict;
using Token = ConnectionQuotas::Token;

TEST(ConnectionQuotasTest, TheAddressBeyondItsMaximumIsRefusedAndOthersAreNot) {
  ConnectionQuotas quotas(100, 2);
  Token a, b, c, d;
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1", 1), nullptr, &a), Verdict::kAdmitted);
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1", 2), nullptr, &b), Verdict::kAdmitted);
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1", 3), nullptr, &c), Verdict::kAddressFull);
  EXPECT_FALSE(c);
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.2", 1), nullptr, &d), Verdict::kAdmitted);
  a.Release();
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1", 3), nullptr, &c), Verdict::kAdmitted);
}

TEST(ConnectionQuotasTest, TheTotalMaximumAsksToWaitAndTellsOfRoomOnce) {
  ConnectionQuotas quotas(2, 100);
  Room room;
  Token a, b, c;
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1"), &room, &a), Verdict::kAdmitted);
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1"), &room, &b), Verdict::kAdmitted);
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1"), &room, &c), Verdict::kTotalFull);
  EXPECT_EQ(quotas.TryAdmit(From("10.0.0.1"), &room, &c), Verdict::kTotalFull);
  EXPECT_EQ(quotas.room(), 0);
  a.Release();
  EXPECT_EQ(room.calls, 1);
  b.Release();
  EXPECT_EQ(room.calls, 1);
  EXPECT_EQ(quotas.total(), 0);
}

TEST(ConnectionQuotasTest, AForgottenWaiterIsNotCalled) {
  ConnectionQuotas quotas(1, 100);
  Room room;
  Token a, b;
  quotas.TryAdmit(From("10.0.0.1"), &room, &a);
  quotas.TryAdmit(From("10.0.0.1"), &room, &b);
  quotas.ForgetWaiter(&room);
  a.Release();
  EXPECT_EQ(room.calls, 0);
}

TEST(ConnectionQuotasTest, AMovedTokenReleasesOnce) {
  ConnectionQuotas quotas(10, 10);
  Token a;
  quotas.TryAdmit(From("10.0.0.1"), nullptr, &a);
  Token b = std::move(a);
  a.Release();
  EXPECT_EQ(quotas.total(), 1);
  b = Token();
  EXPECT_EQ(quotas.total(), 0);
  EXPECT_EQ(quotas.addresses(), 0u);
}

TEST(ConnectionQuotasTest, CountsEndAtZeroAfterManyThreadsCameAndWent) {
  ConnectionQuotas quotas(40, 15);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&quotas, t] {
      const char* hosts[] = {"10.0.0.1", "10.0.0.2", "::1"};
      for (int i = 0; i < 5000; ++i) {
        std::vector<Token> tokens(3);
        for (Token& token : tokens) quotas.TryAdmit(From(hosts[(t + i) % 3]), nullptr, &token);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(quotas.total(), 0);
  EXPECT_EQ(quotas.addresses(), 0u);
}

}  // namespace
}  // namespace gyre
