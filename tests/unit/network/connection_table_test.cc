#include "engine/network/connection/connection_table.h"

#include <cstdint>
#include <vector>

#include "engine/network/server_options.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

class ConnectionTableTest : public ::testing::Test {
 protected:
  Connection::Limits limits_;
  ConnectionTable table_{200, limits_};
};

// Ten thousand idle connections take ten thousand of these and little else.
TEST_F(ConnectionTableTest, AConnectionTakesTenCacheLines) {
  EXPECT_LE(sizeof(ConnectionSlot), 10 * kCacheLineBytes);
  EXPECT_EQ(alignof(ConnectionSlot), kCacheLineBytes);
}

TEST_F(ConnectionTableTest, ARequestTouchesSixCacheLinesOfIt) {
  ConnectionSlot* const slot = table_.Acquire();
  const auto address = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
  EXPECT_EQ(address(&slot->index) % kCacheLineBytes, 0u);
  EXPECT_LE(address(&slot->session.listener + 1) - address(&slot->index), 6 * kCacheLineBytes);
  table_.Release(slot);
}

// With one processor all connections of a listener are there: what the quotas let in must
// find a place.
TEST_F(ConnectionTableTest, AProcessorHasRoomForMoreConnectionsThanSixteenBitsCount) {
  ConnectionTable table(ProcessorOptions().max_connections, limits_);
  for (uint32_t i = 0; i < 70'000; ++i) {
    ConnectionSlot* const slot = table.Acquire();
    ASSERT_NE(slot, nullptr) << i;
    ASSERT_EQ(slot->TokenFor(uring::OpKind::kRecv, Operation::kReceive).slot, i);
  }
}

TEST_F(ConnectionTableTest, ATokenOfAnEarlierLifeIsRefused) {
  ConnectionSlot* const slot = table_.Acquire();
  const uring::Token token = slot->TokenFor(uring::OpKind::kRecv, Operation::kReceive);
  EXPECT_TRUE(ConnectionTable::IsCurrent(*slot, token));
  EXPECT_EQ(ConnectionTable::OperationOf(token), Operation::kReceive);
  const uint32_t generation = slot->generation;
  EXPECT_EQ(table_.Find(slot->index, generation), slot);
  table_.Release(slot);
  EXPECT_FALSE(ConnectionTable::IsCurrent(*slot, token));
  ASSERT_EQ(table_.Acquire(), slot);
  EXPECT_FALSE(ConnectionTable::IsCurrent(*slot, token));
  EXPECT_EQ(table_.Find(slot->index, generation), nullptr);
  table_.Release(slot);
}

TEST_F(ConnectionTableTest, SlotsStayWhereTheyAreAndAreUsedAgain) {
  std::vector<ConnectionSlot*> slots;
  for (uint32_t i = 0; i < 200; ++i) {
    slots.push_back(table_.Acquire());
    ASSERT_NE(slots.back(), nullptr);
    EXPECT_EQ(slots.back()->index, i);
  }
  EXPECT_EQ(table_.Acquire(), nullptr) << "beyond the maximum";
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(&table_.At(i), slots[i]);
  for (ConnectionSlot* slot : slots) table_.Release(slot);
  EXPECT_EQ(table_.size(), 0u);
  for (int i = 0; i < 200; ++i) ASSERT_NE(table_.Acquire(), nullptr);
  EXPECT_EQ(table_.made(), 200u);
  for (ConnectionSlot* slot : slots) table_.Release(slot);
}

}  // namespace
}  // namespace gyre
