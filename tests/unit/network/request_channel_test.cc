#include "engine/network/request/request_channel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/fs/file_system.h"
#include "engine/network/request/request_handler_pool.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Sink final : ResponseSink {
  void EnqueueResponse(ConnectionRequest*) override { ++responses; }
  void EnqueueThrottle(ThrottleSignal*) override { ++throttles; }
  void EnqueueRunStarted(RequestRun*) override { ++started; }
  void EnqueueRoom(int) override { ++room; }
  std::atomic<int> responses{0}, throttles{0}, started{0}, room{0};
};

class RequestChannelTest : public ::testing::Test {
 protected:
  RequestRun* Run(Sink* sink) {
    requests_.push_back(std::make_unique<ConnectionRequest>());
    ConnectionRequest* request = requests_.back().get();
    request->Fill(&channel_, sink, nullptr, 0, 0, Buffer(), 0, 1);
    request->run.first = request;
    request->run.sink = sink;
    return &request->run;
  }

  MemoryPool memory_{MemoryPool::kUnbounded};
  LaneScheduler scheduler_;
  RequestChannel channel_{2, Clock::Real(), memory_};
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
};

TEST_F(RequestChannelTest, EachPopWakesTheFirstThatWaits) {
  Sink a, b;
  ASSERT_TRUE(channel_.TrySend(Run(&a)));
  ASSERT_TRUE(channel_.TrySend(Run(&a)));
  EXPECT_FALSE(channel_.TrySend(Run(&a)));
  channel_.WaitForRoom(&b, 0);
  channel_.WaitForRoom(&a, 0);
  channel_.WaitForRoom(&b, 0);  // is there already
  EXPECT_NE(channel_.TryTake(scheduler_), nullptr);
  EXPECT_EQ(b.room, 1);
  EXPECT_EQ(a.room, 0);
  EXPECT_NE(channel_.TryTake(scheduler_), nullptr);
  EXPECT_EQ(a.room, 1);
  EXPECT_EQ(b.room, 1);
  EXPECT_EQ(channel_.TryTake(scheduler_), nullptr);
}

TEST_F(RequestChannelTest, RoomThatIsNotUsedIsPassedOn) {
  Sink a, b;
  channel_.WaitForRoom(&a, 0);
  channel_.WaitForRoom(&b, 0);
  channel_.ForgetWaiter(&a);
  channel_.PassRoomOn(0);
  EXPECT_EQ(a.room, 0);
  EXPECT_EQ(b.room, 1);
  channel_.PassRoomOn(0);
  EXPECT_EQ(b.room, 1);
}

TEST_F(RequestChannelTest, AnAnswerUsesUpTheRightToAnswer) {
  Sink sink;
  ConnectionRequest* const request = Run(&sink)->first;
  RequestPtr right(request);
  right.Reply(NetworkSend(Buffer::CopyOf("first")));
  EXPECT_FALSE(right);
  EXPECT_DEBUG_DEATH(right.Reply(NetworkSend(Buffer::CopyOf("another"))), "answered twice");
  EXPECT_DEBUG_DEATH(right.CloseConnection("again"), "answered twice");
  EXPECT_DEBUG_DEATH(right.ReplyThenClose(NetworkSend()), "answered twice");
  EXPECT_EQ(request->response_kind(), ResponseKind::kSend);
  EXPECT_EQ(request->response().size_bytes(), 5);
  EXPECT_EQ(request->close_reason(), nullptr);
  EXPECT_FALSE(request->closes_after());
  EXPECT_TRUE(request->MarkStarted(1));
  EXPECT_EQ(sink.responses, 0);
}

TEST_F(RequestChannelTest, WhatWasAnsweredThrottlesNothing) {
  Sink sink;
  ConnectionRequest* const kept = Run(&sink)->first;
  EXPECT_FALSE(kept->MarkStarted(1));
  RequestPtr(kept).ReplyNothing();
  EXPECT_DEBUG_DEATH(kept->Throttle(1'000'000), "answered");
  EXPECT_DEBUG_DEATH(EXPECT_FALSE(kept->StartThrottling(1).throttles()), "answered");
  EXPECT_EQ(sink.throttles, 0);
}

TEST_F(RequestChannelTest, TheRightToAnswerMoves) {
  Sink sink;
  ConnectionRequest* const first = Run(&sink)->first;
  ConnectionRequest* const second = Run(&sink)->first;
  RequestPtr right(first);
  RequestPtr other(std::move(right));
  EXPECT_FALSE(right);
  EXPECT_EQ(&*other, first);
  RequestPtr& itself = other;
  other = std::move(itself);
  EXPECT_EQ(&*other, first);
  other.ReplyNothing();
  other = RequestPtr(second);
  EXPECT_EQ(&*other, second);
  other.ReplyNothing();
  EXPECT_TRUE(first->MarkStarted(1));
  EXPECT_TRUE(second->MarkStarted(1));
}

TEST_F(RequestChannelTest, ARequestThatIsForgottenClosesItsConnection) {
  Sink sink;
  Session session;
  ConnectionRequest* const forgotten = Run(&sink)->first;
  ConnectionRequest* const replaced = Run(&sink)->first;
  for (ConnectionRequest* request : {forgotten, replaced}) {
    request->Fill(&channel_, &sink, &session, 0, 0, Buffer(), 0, 1);
    EXPECT_FALSE(request->MarkStarted(1));
  }
  {
    const RequestPtr right(forgotten);
  }
  EXPECT_EQ(sink.responses, 1);
  EXPECT_EQ(forgotten->response_kind(), ResponseKind::kCloseConnection);
  EXPECT_NE(forgotten->close_reason(), nullptr);
  RequestPtr right(replaced);
  right = RequestPtr();
  EXPECT_EQ(sink.responses, 2);
  EXPECT_EQ(replaced->response_kind(), ResponseKind::kCloseConnection);
}

TEST_F(RequestChannelTest, AnAnswerWithAFileSliceThatIsNoneClosesItsConnection) {
  const absl::StatusOr<FileRef> file = FileSystem::NewReal({})->Open(
      absl::StrCat(std::getenv("TEST_TMPDIR"), "/sliced"), OpenMode::kCreate);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const FileSlice& slice : {FileSlice{FileRef(), 0, 5}, FileSlice{*file, 0, -1},
                                 FileSlice{*file, -1, 5}, FileSlice{*file, INT64_MAX, 1}}) {
    NetworkSend send(Buffer::CopyOf("head"));
    EXPECT_DEBUG_DEATH(send.Append(slice), "a file slice without a file");
#ifdef NDEBUG
    Sink sink;
    ConnectionRequest* const request = Run(&sink)->first;
    RequestPtr(request).Reply(std::move(send));
    EXPECT_EQ(request->response_kind(), ResponseKind::kCloseConnection);
    EXPECT_TRUE(request->response_empty());
    EXPECT_NE(request->close_reason(), nullptr);
#endif
  }
}

#ifndef NDEBUG
TEST_F(RequestChannelTest, WhatWasAnsweredIsOutOfReach) {
  Sink sink;
  RequestPtr right(Run(&sink)->first);
  right.ReplyNothing();
  EXPECT_DEATH(right->frame(), "a request that was answered or moved");
  ConnectionRequest* const kept = Run(&sink)->first;
  EXPECT_FALSE(kept->MarkStarted(1));
  RequestPtr(kept).ReplyNothing();
  EXPECT_DEATH(kept->frame(), "the frame of a request that was answered");
}
#endif

class LanesTest : public ::testing::Test {
 protected:
  // Puts `count` runs of `requests` each into a lane; how many it took.
  int Fill(int lane, int count, uint32_t requests = 1) {
    for (int i = 0; i < count; ++i) {
      auto run = std::make_unique<RequestRun>();
      run->lane = static_cast<uint8_t>(lane);
      run->count = requests;
      run->sink = &sink_;
      if (!channel_.TrySend(run.get())) return i;
      runs_.push_back(std::move(run));
    }
    return count;
  }
  // The lanes of the next runs; "-" where there is none.
  std::string Take(int count) {
    std::string lanes;
    for (int i = 0; i < count; ++i) {
      const RequestRun* run = channel_.TryTake(scheduler_);
      lanes += run == nullptr ? '-' : static_cast<char>('0' + run->lane);
    }
    return lanes;
  }

  Sink sink_;
  MemoryPool memory_{MemoryPool::kUnbounded};
  LaneScheduler scheduler_;
  RequestChannel channel_{8, Clock::Real(), memory_, {{"a", 1}, {"b", 3}, {"c", 2}}};
  std::vector<std::unique_ptr<RequestRun>> runs_;
};

TEST_F(LanesTest, TurnsAreSharedByWeight) {
  for (int lane = 0; lane < 3; ++lane) ASSERT_EQ(Fill(lane, 8), 8);
  const std::string taken = Take(12);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), '0'), 2) << taken;
  EXPECT_EQ(std::count(taken.begin(), taken.end(), '1'), 6) << taken;
  EXPECT_EQ(std::count(taken.begin(), taken.end(), '2'), 4) << taken;
}

TEST_F(LanesTest, WhoeverIsAloneHasEveryTurnAndSavesNothingUp) {
  ASSERT_EQ(Fill(0, 8), 8);
  EXPECT_EQ(Take(8), "00000000");
  EXPECT_EQ(Take(1), "-");
  // Lane 1 was idle all the while and gets its weight, not more.
  ASSERT_EQ(Fill(0, 8), 8);
  ASSERT_EQ(Fill(1, 8), 8);
  const std::string taken = Take(8);
  EXPECT_GE(std::count(taken.begin(), taken.end(), '0'), 2) << taken;
  EXPECT_LE(std::count(taken.begin(), taken.end(), '1'), 6) << taken;
}

TEST_F(LanesTest, AFloodInOneLaneDelaysAnotherByOneTurn) {
  ASSERT_EQ(Fill(1, 8), 8);
  EXPECT_EQ(Take(1), "1");
  ASSERT_EQ(Fill(0, 1), 1);
  const std::string taken = Take(4);
  EXPECT_NE(taken.find('0'), std::string::npos) << taken;
}

TEST_F(LanesTest, WhatALongRunTookBeyondItsTurnIsOwed) {
  ASSERT_EQ(Fill(0, 8, /*requests=*/9), 8);
  ASSERT_EQ(Fill(2, 8, /*requests=*/1), 8);
  // Nine requests against two in a turn: eight of the others follow each.
  const std::string taken = Take(9);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), '0'), 1) << taken;
}

TEST_F(LanesTest, NobodyWaitsForALaneThatOwes) {
  ASSERT_EQ(Fill(0, 3, /*requests=*/1'000'000), 3);
  EXPECT_EQ(Take(4), "000-");
}

TEST_F(LanesTest, AFullLaneRefusesAloneAndWakesItsOwnWaiters) {
  Sink a, b;
  EXPECT_EQ(Fill(0, 100), 8);
  EXPECT_EQ(Fill(1, 100), 8);
  EXPECT_EQ(Fill(2, 1), 1);
  channel_.WaitForRoom(&a, 0);
  channel_.WaitForRoom(&b, 1);
  while (b.room == 0) ASSERT_NE(Take(1), "-");
  EXPECT_EQ(channel_.queued_runs(1), 7u);
  channel_.ForgetWaiter(&a);
  channel_.PassRoomOn(0);
  EXPECT_EQ(a.room, 0);
}

TEST_F(LanesTest, AWeightMayChangeWhileItIsUsed) {
  channel_.SetLaneWeight(0, 6);
  channel_.SetLaneWeight(1, 1);
  ASSERT_EQ(Fill(0, 8), 8);
  ASSERT_EQ(Fill(1, 8), 8);
  const std::string taken = Take(9);
  EXPECT_GE(std::count(taken.begin(), taken.end(), '0'), 6) << taken;
}

struct Counting : Continuation {
  std::atomic<int>* count = nullptr;
};

TEST_F(RequestChannelTest, ContinuationsComeBeforeRuns) {
  class Handler final : public RequestHandler {
   public:
    void Start(RequestPtr request) override {
      seen_at_start = *count;
      request.ReplyNothing();
    }
    std::atomic<int>* count = nullptr;
    int seen_at_start = -1;
  };
  std::atomic<int> count{0};
  Handler handler;
  handler.count = &count;
  Sink sink;
  Counting continuations[3];
  channel_.TrySend(Run(&sink));
  for (Counting& continuation : continuations) {
    continuation.count = &count;
    continuation.run = [](Continuation* self) { ++*static_cast<Counting*>(self)->count; };
    channel_.Post(&continuation);
  }
  HandlerWorker worker(channel_, handler, Clock::Real());
  while (worker.RunOnce(0)) {
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(handler.seen_at_start, 3);
  EXPECT_EQ(sink.responses, 1);
}

TEST_F(RequestChannelTest, WhatNoHandlerTookIsDroppedInsteadOfRun) {
  std::atomic<int> dropped{0};
  Counting with_drop, without_drop;
  with_drop.count = &dropped;
  with_drop.drop = [](Continuation* self) { ++*static_cast<Counting*>(self)->count; };
  for (Counting* continuation : {&with_drop, &without_drop}) {
    continuation->run = [](Continuation*) { FAIL() << "no handler is left"; };
    channel_.Post(continuation);
  }
  channel_.DropAll();
  EXPECT_EQ(dropped, 1);
  EXPECT_FALSE(channel_.has_continuations());
}

TEST_F(RequestChannelTest, EveryContinuationRunsOnceOverManyPostersAndWorkers) {
  class Handler final : public RequestHandler {
   public:
    void Start(RequestPtr request) override { request.ReplyNothing(); }
  };
  constexpr int kPosters = 3, kEach = 20'000;
  Handler handler;
  RequestHandlerPool pool(3, channel_, handler, Clock::Real());
  ASSERT_TRUE(pool.Start().ok());
  std::atomic<int> count{0};
  std::vector<std::vector<Counting>> all;
  for (int i = 0; i < kPosters; ++i) all.emplace_back(kEach);
  std::vector<std::thread> posters;
  for (int i = 0; i < kPosters; ++i) {
    posters.emplace_back([&, i] {
      for (Counting& continuation : all[i]) {
        continuation.count = &count;
        continuation.run = [](Continuation* self) {
          static_cast<Counting*>(self)->count->fetch_add(1);
        };
        channel_.Post(&continuation);
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  // Nobody notifies any more: what is posted must be found without it.
  for (int i = 0; i < 20'000 && count < kPosters * kEach; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(count, kPosters * kEach);
  pool.Stop();
}

TEST_F(RequestChannelTest, NoWaiterIsForgottenWhilePopsAndSendsRace) {
  Sink sink;
  std::atomic<bool> stop{false};
  std::atomic<int64_t> taken{0};
  std::thread consumer([&] {
    while (!stop) {
      if (channel_.TryTake(scheduler_) != nullptr) {
        ++taken;
      } else {
        std::this_thread::yield();
      }
    }
  });
  RequestRun* run = Run(&sink);
  constexpr int kRounds = 5'000;
  int sent = 0;
  for (; sent < kRounds; ++sent) {
    const int room_before = sink.room;
    if (channel_.TrySend(run)) continue;
    channel_.WaitForRoom(&sink, 0);
    if (channel_.TrySend(run)) continue;
    // Full after the FIFO knew: a pop must tell.
    int64_t spins = 0;
    while (sink.room == room_before && ++spins < 2'000'000'000) std::this_thread::yield();
    ASSERT_NE(sink.room, room_before);
    while (!channel_.TrySend(run)) std::this_thread::yield();
  }
  while (taken < sent) std::this_thread::yield();
  stop = true;
  consumer.join();
}

}  // namespace
}  // namespace gyre
