#include "engine/network/memory_plan.h"

#include "absl/strings/match.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/processor/response_budget.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

SocketServerOptions Options(int64_t limit) {
  SocketServerOptions options;
  options.listeners.resize(1);
  options.memory_limit_bytes = limit;
  return options;
}

TEST(MemoryPlanTest, EverythingTogetherStaysUnderTheLimit) {
  for (const int64_t limit : {int64_t{1} << 29, int64_t{1} << 31, int64_t{1} << 35}) {
    const absl::StatusOr<MemoryPlan> plan = PlanMemory(Options(limit));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LT(plan->slab_bytes + plan->ring_bytes + plan->request_bytes + plan->response_bytes,
              limit);
    EXPECT_GT(plan->response_bytes, 0);
  }
}

TEST(MemoryPlanTest, WithoutALimitNothingIsBounded) {
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(Options(0));
  EXPECT_EQ(plan->request_bytes, MemoryPool::kUnbounded);
  EXPECT_EQ(plan->response_bytes, ResponseBudget::kUnbounded);
}

TEST(MemoryPlanTest, TheLeastLimitIsTakenAndOneByteBelowIsRefused) {
  for (const int64_t largest :
       {int64_t{1}, int64_t{1000}, int64_t{1} << 16, int64_t{100} << 20, (int64_t{1} << 30) - 5}) {
    SocketServerOptions options = Options(0);
    options.processor.connection.socket_request_max_bytes = largest;
    options.memory_limit_bytes = LeastMemoryLimit(options);
    EXPECT_TRUE(PlanMemory(options).ok()) << PlanMemory(options).status();
    options.memory_limit_bytes -= 1;
    const absl::Status refused = PlanMemory(options).status();
    EXPECT_TRUE(absl::StrContains(refused.message(), "the least is")) << refused;
  }
}

TEST(MemoryPlanTest, MoreForRequestsThanThereIsIsRefused) {
  SocketServerOptions options = Options(int64_t{1} << 30);
  options.queued_max_request_bytes = int64_t{900} << 20;
  EXPECT_TRUE(absl::StrContains(PlanMemory(options).status().message(), "the most is"));
  options.queued_max_request_bytes = int64_t{200} << 20;
  EXPECT_EQ(PlanMemory(options)->request_bytes, int64_t{200} << 20);
}

TEST(MemoryPlanTest, APrivilegedListenerHasRoomForOneRequestBesideTheOthers) {
  SocketServerOptions options = Options(int64_t{1} << 30);
  const int64_t shared = PlanMemory(options)->request_bytes;
  options.listeners.resize(2);
  options.listeners[1].privileged = true;
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(options);
  EXPECT_EQ(plan->privileged_request_bytes, LargestRequest(options));
  EXPECT_LT(plan->request_bytes, shared);
  options.memory_limit_bytes = 0;
  EXPECT_EQ(PlanMemory(options)->privileged_request_bytes, MemoryPool::kUnbounded);
}

TEST(MemoryPlanTest, WhatZeroCopyPinsComesFromTheAnswersPart) {
  SocketServerOptions options = Options(int64_t{1} << 29);
  const MemoryPlan with = *PlanMemory(options);
  EXPECT_GT(with.pinned_bytes, 0);
  options.processor.connection.zero_copy_max_pinned_bytes = 0;
  const MemoryPlan without = *PlanMemory(options);
  EXPECT_EQ(without.pinned_bytes, 0);
  EXPECT_EQ(without.response_bytes - with.response_bytes,
            with.pinned_bytes * ProcessorCount(options));
}

TEST(ResponseBudgetTest, OneMayAlwaysAskAndSmallAnswersTeachNothing) {
  ResponseBudget budget(1000);
  EXPECT_FALSE(budget.IsExhausted());
  budget.OnRequest();
  EXPECT_TRUE(budget.IsExhausted());
  budget.OnAnswered();
  budget.Learn(100);
  budget.ChangeAnswers(100, false);
  EXPECT_TRUE(budget.IsExhausted());
  budget.ChangeAnswers(-100, false);
  EXPECT_FALSE(budget.IsExhausted());
  // Whatever was sent ahead: those who sent it could only wait for each other.
  budget.ChangeAhead(5000, false);
  EXPECT_FALSE(budget.IsExhausted());
}

TEST(ResponseBudgetTest, WhatIsUnderWayCountsAsMuchAsTheLargestOfLate) {
  ResponseBudget budget(10 << 20);
  budget.Learn(2 << 20);
  budget.ChangeAnswers(2 << 20, false);
  EXPECT_FALSE(budget.IsExhausted());
  for (int i = 0; i < 4; ++i) budget.OnRequest();
  EXPECT_TRUE(budget.IsExhausted());  // 2 + 5 * 2 MiB
  budget.OnAnswered();
  EXPECT_FALSE(budget.IsExhausted());
}

TEST(ResponseBudgetTest, TheExcessIsWhatNobodyIsBeingClosedFor) {
  ResponseBudget budget(1000);
  budget.ChangeAnswers(900, false);
  EXPECT_EQ(budget.excess_bytes(), 0);
  budget.ChangeAhead(300, false);
  EXPECT_EQ(budget.excess_bytes(), 200);
  EXPECT_FALSE(budget.IsOverdrawn());
  budget.OnLeaving(250);
  EXPECT_EQ(budget.excess_bytes(), 0);
  EXPECT_TRUE(budget.IsOverdrawn()) << "not gone yet";
  budget.ChangeAnswers(-250, true);
  EXPECT_EQ(budget.used_bytes(), 950);
  EXPECT_EQ(budget.leaving_bytes(), 0);
  EXPECT_FALSE(budget.IsOverdrawn());
  budget.SetCapacity(900);
  EXPECT_EQ(budget.excess_bytes(), 50);
}

}  // namespace
}  // namespace gyre
