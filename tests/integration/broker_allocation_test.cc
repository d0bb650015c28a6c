// The broker's own requests take nothing from the heap on I/O threads after a warm-up:
// produces (sent ahead, with every acks), fetches of what is there and of what comes later.
// allocation_test has the engine's other paths, with a handler of its own.
#include <string>

#include "gtest/gtest.h"
#include "tests/integration/broker_harness.h"
#include "tests/integration/counting_allocator.h"

namespace gyre {
namespace {

using testing::AllocationCount;

constexpr int32_t kInFlight = 5;

class BrokerAllocationTest : public ::testing::TestWithParam<Dispatch>, public BrokerHarness {
 protected:
  void SetUp() override {
    if (!testing::CountsAllocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
    options.network.processor.connection.dispatch = GetParam();
    options.network.processor.connection.max_in_flight_requests_per_connection = kInFlight;
    const absl::Status started = Start();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_EQ(Connect().CreateTopic("t"), ErrorCode::kNone);
  }

  // More produces than may be in flight; those with acks=0 go unanswered.
  static void ProduceAhead(Client& client, absl::string_view batch, int64_t* end_offset) {
    constexpr int kCount = 3 * kInFlight;
    // The last one is synced, and what is before it: consumers see them.
    const auto acks_of = [](int i) { return static_cast<int16_t>((i + 1) % 3 - 1); };
    for (int i = 0; i < kCount; ++i) {
      ASSERT_TRUE(client.Send(Client::MakeProduce("t", batch, acks_of(i)), 9, i));
    }
    for (int i = 0; i < kCount; ++i) {
      if (acks_of(i) == 0) continue;
      ASSERT_TRUE(client.Receive());
      const auto response = client.As<proto::ProduceResponse>(9, i);
      ASSERT_EQ(response.responses.at(0).partition_responses.at(0).base_offset, *end_offset + i);
    }
    *end_offset += kCount;
  }

  void Exchange(int rounds) {
    const std::string small = Client::Batch("x");
    const std::string large = Client::Batch(std::string(60'000, 'y'));
    Client producer = Connect();
    Client consumer = Connect();
    for (int i = 0; i < rounds && !HasFatalFailure(); ++i) {
      ProduceAhead(producer, i % 4 == 0 ? large : small, &end_offset_);
      // Small ranges are copied beside the header, large ones leave the file.
      ASSERT_GE(consumer.Fetch("t", end_offset_ - 1).size(), small.size());
      ASSERT_GE(consumer.Fetch("t", end_offset_ - 15).size(), 15 * small.size());
      ASSERT_TRUE(consumer.Send(Client::MakeFetch("t", end_offset_, 20'000), 12));
      ASSERT_FALSE(consumer.HasBytesWithin(1));
      ASSERT_EQ(producer.Produce("t", small), end_offset_++);
      ASSERT_TRUE(consumer.Receive());
    }
  }

  int64_t end_offset_ = 0;
};

TEST_P(BrokerAllocationTest, ProducesAndFetchesAllocateNothingOnIoThreads) {
  // Connections come and go on every processor.
  for (int i = 0; i < 6 && !HasFatalFailure(); ++i) Exchange(8);
  if (HasFatalFailure()) return;
  AllocationCount allocations;
  for (int i = 0; i < 4 && !HasFatalFailure(); ++i) Exchange(8);
  EXPECT_EQ(allocations.Stop(), 0) << AllocationCount::FirstOnes();
}

INSTANTIATE_TEST_SUITE_P(Dispatch, BrokerAllocationTest,
                         ::testing::Values(Dispatch::kPool, Dispatch::kInline),
                         [](const auto& info) {
                           return info.param == Dispatch::kPool ? "Pool" : "Inline";
                         });

}  // namespace
}  // namespace gyre
