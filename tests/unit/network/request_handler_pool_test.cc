// The handlers of a request channel: what lies behind a sender that is preempted in the
// middle of its push is not forgotten (a signal stands in for the scheduler), and there
// may be no threads to be had.
#include "engine/network/request/request_handler_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "gtest/gtest.h"
#include "tests/unit/concurrent/no_more_threads.h"

namespace gyre {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kRuns = 8192;
constexpr int kPatienceMs = 20'000;

std::atomic<bool> held{false};
std::atomic<bool> let_go{false};

// Keeps the thread where it is.
void Hold(int) {
  held = true;
  while (!let_go) sched_yield();
  held = false;
}

struct Sink final : ResponseSink {
  void EnqueueResponse(ConnectionRequest*) override { ++responses; }
  void EnqueueThrottle(ThrottleSignal*) override {}
  void EnqueueRunStarted(RequestRun*) override {}
  void EnqueueRoom(int) override {}
  std::atomic<int64_t> responses{0};
};

// Once armed, a request waits for the last one to be started by another handler.
class Handler final : public RequestHandler {
 public:
  void Start(RequestPtr request) override {
    if (&*request == last) {
      last_started = true;
    } else if (armed) {
      for (int ms = 0; !last_started && ms < kPatienceMs; ++ms) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      EXPECT_TRUE(last_started) << "it waits although a handler is idle";
    }
    request.ReplyNothing();
  }
  std::atomic<Request*> last{nullptr};
  std::atomic<bool> armed{false};
  std::atomic<bool> last_started{false};
};

class RequestHandlerPoolTest : public ::testing::Test {
 protected:
  RequestRun* Fill(ConnectionRequest* request) {
    request->Fill(&channel_, &sink_, nullptr, 0, 0, Buffer(), 0, 1);
    request->run.first = request;
    request->run.sink = &sink_;
    return &request->run;
  }
  // Sends one after the other until it was held, and tells of the last one.
  void SendUntilHeld() {
    int64_t sent = 0;
    while (sent < kRuns && !let_go.load(std::memory_order_relaxed)) {
      channel_.TrySend(&requests_[static_cast<size_t>(sent)].run);
      sent_.store(++sent, std::memory_order_relaxed);
    }
    channel_.WakeHandlers(1);
    while (sink_.responses <= sent) std::this_thread::sleep_for(milliseconds(1));
  }

  MemoryPool memory_{MemoryPool::kUnbounded};
  RequestChannel channel_{2 * kRuns, Clock::Real(), memory_};
  Handler handler_;
  RequestHandlerPool pool_{2, channel_, handler_, Clock::Real()};
  Sink sink_;
  std::vector<ConnectionRequest> requests_{kRuns};
  std::atomic<int64_t> sent_{0};  // whole
};

TEST_F(RequestHandlerPoolTest, WhatLiesBehindAHalfPushedRunFindsTheIdleHandler) {
  struct sigaction action = {};
  action.sa_handler = &Hold;
  ASSERT_EQ(sigaction(SIGUSR2, &action, nullptr), 0);
  ASSERT_TRUE(pool_.Start().ok());
  int caught = 0;
  for (int attempt = 0; attempt < 40 && caught < 3 && !HasFailure(); ++attempt) {
    handler_.armed = handler_.last_started = let_go = false;
    sent_ = sink_.responses = 0;
    for (ConnectionRequest& request : requests_) Fill(&request);
    std::thread sender([this] { SendUntilHeld(); });
    while (sent_ < 500) {
    }
    pthread_kill(sender.native_handle(), SIGUSR2);
    while (!held) std::this_thread::yield();
    channel_.WakeHandlers(2);
    while (sink_.responses < sent_) std::this_thread::yield();
    // What is left is half of a run; what comes behind it is whole, and was told of.
    const bool half_pushed = channel_.queued_runs() == 1;
    ConnectionRequest last;
    handler_.last = &last;
    channel_.TrySend(Fill(&last));
    channel_.WakeHandlers(1);
    if (half_pushed) {
      std::this_thread::sleep_for(milliseconds(2));
      handler_.armed = !handler_.last_started;
      caught += handler_.armed ? 1 : 0;
    }
    let_go = true;
    sender.join();
  }
  pool_.Stop();
  RecordProperty("caught", caught);
}

TEST_F(RequestHandlerPoolTest, WithoutThreadsTheirNumberStays) {
  ASSERT_TRUE(pool_.Start().ok());
  {
    const NoMoreThreads none;
    const absl::Status status = pool_.Resize(4);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  }
  EXPECT_EQ(pool_.size(), 2);
  EXPECT_TRUE(pool_.Resize(4).ok());
  EXPECT_EQ(pool_.size(), 4);
}

}  // namespace
}  // namespace gyre
