#include "engine/purgatory/delayed_operation_purgatory.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/manual_clock.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

// The lane as a list that the test drains by hand.
class ManualLane : public ContinuationLane {
 public:
  void Post(Continuation* continuation) override {
    queue_.Push(continuation);
    ++posted;
  }
  int Drain() {
    int count = 0;
    while (MpscNode* node = queue_.Pop()) {
      auto* continuation = static_cast<Continuation*>(node);
      continuation->run(continuation);
      ++count;
    }
    return count;
  }
  void DropAll() override {
    while (MpscNode* node = queue_.Pop()) {
      auto* continuation = static_cast<Continuation*>(node);
      continuation->drop(continuation);
    }
  }
  int posted = 0;

 private:
  MpscQueue queue_;
};

struct Trace {
  std::vector<std::string> events;
  int alive = 0;
};

class TestOperation : public DelayedOperation {
 public:
  TestOperation(Trace* trace, std::string name, int64_t timeout_ms)
      : DelayedOperation(timeout_ms), trace_(trace), name_(std::move(name)) {
    ++trace_->alive;
  }

  bool satisfied = false;
  int tries = 0;
  std::function<void()> during_try;

 protected:
  ~TestOperation() override { --trace_->alive; }
  bool TryComplete() override {
    ++tries;
    if (during_try) during_try();
    return satisfied && ForceComplete();
  }
  void OnComplete() override { trace_->events.push_back(name_ + " complete"); }
  void OnExpiration() override { trace_->events.push_back(name_ + " expired"); }
  void OnDrop() override { trace_->events.push_back(name_ + " dropped"); }

 private:
  Trace* trace_;
  std::string name_;
};

using Events = std::vector<std::string>;

constexpr WatchKey kKeyA{1, 10};
constexpr WatchKey kKeyB{1, 11};
constexpr WatchKey kKeyC{2, 10};

class PurgatoryTest : public testing::Test {
 protected:
  RefPtr<TestOperation> Make(const std::string& name, int64_t timeout_ms = 1000) {
    return MakeRef<TestOperation>(&trace_, name, timeout_ms);
  }
  // Lets `ms` go by: the timer's turn, then the handlers'.
  void PassMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    while (timer_.RunOnce(clock_.NowNs())) {
    }
    lane_.Drain();
  }

  Trace trace_;
  ManualClock clock_{5'000'000'000};
  Timer timer_{clock_};
  ManualLane lane_;
  DelayedOperationPurgatory purgatory_{clock_, timer_, lane_};
};

TEST_F(PurgatoryTest, AnOperationWaitsOnce) {
  auto operation = Make("op");
  EXPECT_FALSE(purgatory_.TryCompleteElseWatch(operation, {kKeyA}));
  EXPECT_DEBUG_DEATH(EXPECT_FALSE(purgatory_.TryCompleteElseWatch(operation, {kKeyA, kKeyB})),
                     "a delayed operation waits once");
  EXPECT_EQ(purgatory_.watched_count(), 1);
  EXPECT_EQ(purgatory_.pending_count(), 1);
  operation->satisfied = true;
  EXPECT_EQ(purgatory_.CheckAndComplete(kKeyA), 1u);
  lane_.Drain();
  EXPECT_EQ(trace_.events, Events{"op complete"});
  EXPECT_DEBUG_DEATH(EXPECT_TRUE(purgatory_.TryCompleteElseWatch(operation, {kKeyA})),
                     "a delayed operation waits once");
  EXPECT_EQ(purgatory_.pending_count(), 0);
}

TEST_F(PurgatoryTest, AnOperationThatIsSatisfiedAtOnceIsNotWatched) {
  auto operation = Make("op");
  operation->satisfied = true;
  EXPECT_TRUE(purgatory_.TryCompleteElseWatch(operation, {kKeyA}));
  EXPECT_EQ(operation->tries, 1);
  EXPECT_EQ(trace_.events, Events{"op complete"});
  EXPECT_EQ(purgatory_.watched_count(), 0);
  EXPECT_EQ(purgatory_.pending_count(), 0);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(purgatory_.CheckAndComplete(kKeyA), 0u);
}

TEST_F(PurgatoryTest, OneThatIsNotIsTriedAgainAfterItIsWatched) {
  auto operation = Make("op");
  operation->during_try = [&] {
    // The event that comes between the first look and the watching.
    if (operation->tries == 2) {
      EXPECT_EQ(purgatory_.watched_count(), 2);
      operation->satisfied = true;
    }
  };
  EXPECT_TRUE(purgatory_.TryCompleteElseWatch(operation, {kKeyA, kKeyB}));
  EXPECT_EQ(operation->tries, 2);
  EXPECT_EQ(trace_.events, Events{"op complete"});
  EXPECT_EQ(purgatory_.watched_count(), 0);
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(PurgatoryTest, AnEventCompletesOnlyTheOperationsOfItsKey) {
  auto first = Make("first");
  auto second = Make("second");
  EXPECT_FALSE(purgatory_.TryCompleteElseWatch(first, {kKeyA}));
  EXPECT_FALSE(purgatory_.TryCompleteElseWatch(second, {kKeyC}));
  EXPECT_EQ(purgatory_.pending_count(), 2);
  first->satisfied = second->satisfied = true;
  EXPECT_EQ(purgatory_.CheckAndComplete(kKeyB), 0u);
  EXPECT_EQ(purgatory_.CheckAndComplete(kKeyA), 1u);
  lane_.Drain();
  EXPECT_EQ(trace_.events, Events{"first complete"});
  EXPECT_EQ(purgatory_.CheckAndComplete(kKeyA), 0u);
  EXPECT_EQ(purgatory_.CheckAndComplete(kKeyC), 1u);
  lane_.Drain();
  EXPECT_EQ(trace_.events, (Events{"first complete", "second complete"}));
  EXPECT_EQ(purgatory_.pending_count(), 0);
}

TEST_F(PurgatoryTest, AnEventOnlyPosts) {
  auto operation = Make("op");
  purgatory_.TryCompleteElseWatch(operation, {kKeyA});
  operation->satisfied = true;
  const int tries = operation->tries;
  purgatory_.CheckAndComplete(kKeyA);
  EXPECT_EQ(operation->tries, tries);
  EXPECT_TRUE(trace_.events.empty());
  lane_.Drain();
  EXPECT_EQ(trace_.events, Events{"op complete"});
}

TEST_F(PurgatoryTest, SeveralEventsBeforeATurnCostOneTurn) {
  auto operation = Make("op");
  purgatory_.TryCompleteElseWatch(operation, {kKeyA, kKeyB});
  const int tries = operation->tries;
  for (int i = 0; i < 10; ++i) purgatory_.CheckAndComplete(i % 2 == 0 ? kKeyA : kKeyB);
  EXPECT_EQ(lane_.posted, 1);
  lane_.Drain();
  EXPECT_EQ(operation->tries, tries + 1);
  operation->satisfied = true;
  purgatory_.CheckAndComplete(kKeyA);
  lane_.Drain();
}

TEST_F(PurgatoryTest, AnEventDuringATurnRunsTheTurnAgain) {
  auto operation = Make("op");
  purgatory_.TryCompleteElseWatch(operation, {kKeyA});
  operation->during_try = [&] {
    operation->during_try = nullptr;
    // After the condition was looked at: satisfied stays false in this turn.
    EXPECT_EQ(purgatory_.CheckAndComplete(kKeyA), 1u);
  };
  const int tries = operation->tries;
  purgatory_.CheckAndComplete(kKeyA);
  EXPECT_EQ(lane_.Drain(), 1);
  EXPECT_EQ(operation->tries, tries + 2);
  operation->satisfied = true;
  purgatory_.CheckAndComplete(kKeyA);
  lane_.Drain();
}

TEST_F(PurgatoryTest, ACompletedOperationLeavesAllItsKeysAndTheTimer) {
  {
    auto operation = Make("op");
    purgatory_.TryCompleteElseWatch(operation, {kKeyA, kKeyB, kKeyC});
    EXPECT_EQ(purgatory_.watched_count(), 3);
    EXPECT_EQ(purgatory_.key_count(), 3);
    EXPECT_EQ(timer_.size(), 1u);
    operation->satisfied = true;
    purgatory_.CheckAndComplete(kKeyB);
  }
  EXPECT_EQ(trace_.alive, 1);
  lane_.Drain();
  EXPECT_EQ(purgatory_.watched_count(), 0);
  EXPECT_EQ(purgatory_.key_count(), 0);
  EXPECT_EQ(purgatory_.pending_count(), 0);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(trace_.alive, 0);
}

TEST_F(PurgatoryTest, AnOperationExpiresAtItsDeadlineAndNotBefore) {
  purgatory_.TryCompleteElseWatch(Make("op", 20), {kKeyA});
  PassMs(19);
  EXPECT_TRUE(trace_.events.empty());
  PassMs(1);
  EXPECT_EQ(trace_.events, (Events{"op complete", "op expired"}));
  EXPECT_EQ(purgatory_.watched_count(), 0);
  EXPECT_EQ(trace_.alive, 0);
}

TEST_F(PurgatoryTest, ATimeoutBeyondTheEndOfTheClockIsNotEarly) {
  for (const int64_t timeout_ms : {INT64_MAX, INT64_MAX / 1'000'000, INT64_MAX / 1000}) {
    purgatory_.TryCompleteElseWatch(Make("op", timeout_ms), {kKeyA});
  }
  PassMs(1'000'000'000);
  EXPECT_TRUE(trace_.events.empty());
  EXPECT_EQ(purgatory_.pending_count(), 3);
}

TEST_F(PurgatoryTest, ExpirationIsPostedAndNotRunByTheTimer) {
  purgatory_.TryCompleteElseWatch(Make("op", 20), {kKeyA});
  clock_.AdvanceMs(20);
  timer_.RunOnce(clock_.NowNs());
  EXPECT_TRUE(trace_.events.empty());
  EXPECT_EQ(lane_.Drain(), 1);
  EXPECT_EQ(trace_.events.size(), 2u);
}

TEST_F(PurgatoryTest, ASatisfiedOperationDoesNotExpire) {
  auto operation = Make("op", 20);
  purgatory_.TryCompleteElseWatch(operation, {kKeyA});
  operation->satisfied = true;
  purgatory_.CheckAndComplete(kKeyA);
  lane_.Drain();
  PassMs(100);
  EXPECT_EQ(trace_.events, Events{"op complete"});
}

TEST_F(PurgatoryTest, AnExpiryAndAnEventTogetherCompleteItOnce) {
  auto operation = Make("op", 20);
  purgatory_.TryCompleteElseWatch(operation, {kKeyA});
  operation->satisfied = true;
  purgatory_.CheckAndComplete(kKeyA);
  PassMs(20);
  EXPECT_EQ(std::count(trace_.events.begin(), trace_.events.end(), "op complete"), 1);
}

TEST_F(PurgatoryTest, ATimeoutOfZeroExpiresWithTheNextTurns) {
  EXPECT_FALSE(purgatory_.TryCompleteElseWatch(Make("op", 0), {kKeyA}));
  PassMs(0);
  EXPECT_EQ(trace_.events, (Events{"op complete", "op expired"}));
}

TEST_F(PurgatoryTest, WithoutATimeoutItWaitsForEver) {
  auto operation = Make("op", DelayedOperation::kNoTimeout);
  purgatory_.TryCompleteElseWatch(operation, {kKeyA});
  EXPECT_EQ(timer_.size(), 0u);
  PassMs(1'000'000'000);
  EXPECT_TRUE(trace_.events.empty());
  purgatory_.CompleteAll(kKeyA);
  lane_.Drain();
  EXPECT_EQ(trace_.events, Events{"op complete"});
}

TEST_F(PurgatoryTest, AnOperationMayWaitForItsDeadlineOnly) {
  purgatory_.TryCompleteElseWatch(Make("op", 20), {});
  EXPECT_EQ(purgatory_.pending_count(), 1);
  PassMs(20);
  EXPECT_EQ(trace_.events, (Events{"op complete", "op expired"}));
  EXPECT_EQ(trace_.alive, 0);
}

TEST_F(PurgatoryTest, CompleteAllDoesNotAskTheCondition) {
  auto first = Make("first");
  auto second = Make("second");
  purgatory_.TryCompleteElseWatch(first, {kKeyA});
  purgatory_.TryCompleteElseWatch(second, {kKeyA, kKeyB});
  EXPECT_EQ(purgatory_.CompleteAll(kKeyA), 2u);
  lane_.Drain();
  EXPECT_EQ(trace_.events, (Events{"first complete", "second complete"}));
  EXPECT_EQ(purgatory_.watched_count(), 0);
}

TEST_F(PurgatoryTest, AnEventSourceMayHoldTheOperationItself) {
  auto operation = Make("op");
  operation->RequestCheck();  // before it is in the purgatory
  EXPECT_EQ(lane_.posted, 0);
  EXPECT_FALSE(purgatory_.TryCompleteElseWatch(operation, {kKeyA}));
  operation->satisfied = true;
  operation->RequestCheck();
  lane_.Drain();
  EXPECT_EQ(trace_.events, Events{"op complete"});
  operation->RequestCheck();
  EXPECT_EQ(lane_.Drain(), 0);
}

TEST_F(PurgatoryTest, ACompletionAskedForBeforeItWaitsIsNotForgotten) {
  auto operation = Make("op");
  operation->RequestComplete();
  EXPECT_TRUE(purgatory_.TryCompleteElseWatch(operation, {kKeyA}));
  EXPECT_EQ(trace_.events, Events{"op complete"});
  EXPECT_EQ(purgatory_.watched_count(), 0);
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(PurgatoryTest, ACompletionMayStartAnotherOperation) {
  auto next = Make("next");
  auto operation = Make("op");
  operation->during_try = [&] {
    if (operation->satisfied) purgatory_.TryCompleteElseWatch(next, {kKeyA});
  };
  purgatory_.TryCompleteElseWatch(operation, {kKeyA});
  operation->satisfied = true;
  purgatory_.CheckAndComplete(kKeyA);
  lane_.Drain();
  EXPECT_EQ(trace_.events, Events{"op complete"});
  EXPECT_EQ(purgatory_.pending_count(), 1);
  next->satisfied = true;
  purgatory_.CheckAndComplete(kKeyA);
  lane_.Drain();
  EXPECT_EQ(trace_.events, (Events{"op complete", "next complete"}));
}

TEST_F(PurgatoryTest, ShutdownDropsWhatWaitsAndWhatWouldWait) {
  purgatory_.TryCompleteElseWatch(Make("keyed"), {kKeyA, kKeyB, kKeyC});
  purgatory_.TryCompleteElseWatch(Make("timed", 50), {});
  purgatory_.Shutdown();
  EXPECT_EQ(trace_.events.size(), 2u);
  EXPECT_EQ(trace_.alive, 0);
  EXPECT_EQ(timer_.size(), 0u);
  EXPECT_EQ(purgatory_.pending_count(), 0);
  trace_.events.clear();

  EXPECT_TRUE(purgatory_.TryCompleteElseWatch(Make("late"), {kKeyA}));
  EXPECT_EQ(trace_.events, Events{"late dropped"});
  auto satisfied = Make("satisfied");
  satisfied->satisfied = true;
  EXPECT_TRUE(purgatory_.TryCompleteElseWatch(satisfied, {kKeyA}));
  EXPECT_EQ(trace_.events, (Events{"late dropped", "satisfied complete"}));
}

TEST_F(PurgatoryTest, APostedOperationThatIsDroppedDoesNothingInItsTurn) {
  purgatory_.TryCompleteElseWatch(Make("op"), {kKeyA});
  purgatory_.CompleteAll(kKeyA);
  purgatory_.Shutdown();
  EXPECT_EQ(trace_.alive, 1);  // the lane's reference
  EXPECT_EQ(lane_.Drain(), 1);
  EXPECT_EQ(trace_.events, Events{"op dropped"});
  EXPECT_EQ(trace_.alive, 0);
}

TEST_F(PurgatoryTest, ALaneThatIsDroppedLetsGoOfItsOperations) {
  purgatory_.TryCompleteElseWatch(Make("op"), {kKeyA});
  purgatory_.CompleteAll(kKeyA);
  purgatory_.Shutdown();
  lane_.DropAll();
  EXPECT_EQ(trace_.events, Events{"op dropped"});
  EXPECT_EQ(trace_.alive, 0);
}

}  // namespace
}  // namespace gyre
