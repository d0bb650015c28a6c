#include "engine/network/request_channel.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/network/request_handler_pool.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Sink final : ResponseSink {
  void EnqueueResponse(ConnectionRequest*) override { ++responses; }
  void EnqueueThrottle(ThrottleSignal*) override { ++throttles; }
  void EnqueueRunStarted(RequestRun*) override { ++started; }
  void EnqueueRoom() override { ++room; }
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
  RequestChannel channel_{2, Clock::Real(), memory_};
  std::vector<std::unique_ptr<ConnectionRequest>> requests_;
};

TEST_F(RequestChannelTest, EachPopWakesTheFirstThatWaits) {
  Sink a, b;
  ASSERT_TRUE(channel_.TrySend(Run(&a)));
  ASSERT_TRUE(channel_.TrySend(Run(&a)));
  EXPECT_FALSE(channel_.TrySend(Run(&a)));
  channel_.WaitForRoom(&b);
  channel_.WaitForRoom(&a);
  channel_.WaitForRoom(&b);  // is there already
  EXPECT_NE(channel_.TryTake(), nullptr);
  EXPECT_EQ(b.room, 1);
  EXPECT_EQ(a.room, 0);
  EXPECT_NE(channel_.TryTake(), nullptr);
  EXPECT_EQ(a.room, 1);
  EXPECT_EQ(b.room, 1);
  EXPECT_EQ(channel_.TryTake(), nullptr);
}

TEST_F(RequestChannelTest, RoomThatIsNotUsedIsPassedOn) {
  Sink a, b;
  channel_.WaitForRoom(&a);
  channel_.WaitForRoom(&b);
  channel_.ForgetWaiter(&a);
  channel_.PassRoomOn();
  EXPECT_EQ(a.room, 0);
  EXPECT_EQ(b.room, 1);
  channel_.PassRoomOn();
  EXPECT_EQ(b.room, 1);
}

struct Counting : Continuation {
  std::atomic<int>* count = nullptr;
};

TEST_F(RequestChannelTest, ContinuationsComeBeforeRuns) {
  class Handler final : public RequestHandler {
   public:
    void Start(Request* request) override {
      seen_at_start = *count;
      request->ReplyNothing();
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
    void Start(Request* request) override { request->ReplyNothing(); }
  };
  constexpr int kPosters = 3, kEach = 20'000;
  Handler handler;
  RequestHandlerPool pool(3, channel_, handler, Clock::Real());
  pool.Start();
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
      if (channel_.TryTake() != nullptr) ++taken;
    }
  });
  RequestRun* run = Run(&sink);
  constexpr int kRounds = 20'000;
  int sent = 0;
  for (; sent < kRounds; ++sent) {
    const int room_before = sink.room;
    if (channel_.TrySend(run)) continue;
    channel_.WaitForRoom(&sink);
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
