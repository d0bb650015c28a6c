#include "engine/concurrent/thread_runner.h"

#include <pthread.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/concurrent/mutex.h"
#include "gtest/gtest.h"
#include "tests/unit/concurrent/no_more_threads.h"

namespace gyre {
namespace {

// Takes `work` one by one; counts its turns.
class Worker : public ThreadBody {
 public:
  bool RunOnce(int64_t now_ns) override {
    turns.fetch_add(1);
    last_now_ns.store(now_ns);
    int left = work.load();
    while (left > 0 && !work.compare_exchange_weak(left, left - 1)) {
    }
    if (left > 0) done.fetch_add(1);
    return left > 0;
  }
  int64_t NextDeadlineNs() const override { return deadline_ns.load(); }
  void OnThreadStart() override {
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof(name));
    MutexLock lock(mutex);
    thread_name = name;
    ++starts;
  }
  void OnThreadStop() override {
    MutexLock lock(mutex);
    ++stops;
  }

  std::atomic<int> work{0};
  std::atomic<int> done{0};
  std::atomic<int> turns{0};
  std::atomic<int64_t> last_now_ns{0};
  std::atomic<int64_t> deadline_ns{kNever};
  Mutex mutex;
  std::string thread_name ABSL_GUARDED_BY(mutex);
  int starts ABSL_GUARDED_BY(mutex) = 0;
  int stops ABSL_GUARDED_BY(mutex) = 0;
};

TEST(ThreadRunnerTest, RunsUnderItsNameAndCallsTheHooksOnce) {
  Worker worker;
  EventCount wakeup;
  ThreadRunner runner("processor-1234567890", worker, wakeup, Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  EXPECT_TRUE(runner.running());
  runner.Stop();
  EXPECT_FALSE(runner.running());
  MutexLock lock(worker.mutex);
  EXPECT_EQ(worker.thread_name, "processor-12345");
  EXPECT_EQ(worker.starts, 1);
  EXPECT_EQ(worker.stops, 1);
}

TEST(ThreadRunnerTest, WhereThereIsNoThreadToBeHadItSaysSo) {
  Worker worker;
  EventCount wakeup;
  ThreadRunner runner("handler-7", worker, wakeup, Clock::Real());
  {
    const NoMoreThreads none;
    const absl::Status status = runner.Start();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "handler-7")) << status;
  }
  EXPECT_FALSE(runner.running());
  runner.Stop();
}

TEST(ThreadRunnerTest, NoWorkIsSleptOver) {
  Worker worker;
  EventCount wakeup;
  ThreadRunner runner("worker", worker, wakeup, Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  for (int i = 1; i <= 2000; ++i) {
    worker.work.fetch_add(1);
    wakeup.NotifyOne();
    while (worker.done.load() < i) std::this_thread::yield();
  }
}

TEST(ThreadRunnerTest, AnIdleThreadSleeps) {
  Worker worker;
  EventCount wakeup;
  ThreadRunner runner("worker", worker, wakeup, Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  while (wakeup.waiter_count() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int turns = worker.turns.load();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(worker.turns.load(), turns);
}

TEST(ThreadRunnerTest, WakesAtTheDeadlineOfItsBody) {
  Worker worker;
  EventCount wakeup;
  const int64_t deadline_ns = Clock::Real().NowNs() + 30'000'000;
  worker.deadline_ns.store(deadline_ns);
  ThreadRunner runner("worker", worker, wakeup, Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  while (worker.last_now_ns.load() < deadline_ns) std::this_thread::yield();
  worker.deadline_ns.store(ThreadBody::kNever);
}

TEST(ThreadRunnerTest, RunnersMayShareAWaitingPlace) {
  Worker worker;
  EventCount wakeup;
  ThreadRunner first("worker-0", worker, wakeup, Clock::Real());
  ThreadRunner second("worker-1", worker, wakeup, Clock::Real());
  ASSERT_TRUE(first.Start().ok());
  ASSERT_TRUE(second.Start().ok());
  for (int i = 0; i < 1000; ++i) {
    worker.work.fetch_add(1);
    wakeup.NotifyOne();
  }
  while (worker.done.load() < 1000) std::this_thread::yield();
  first.Stop();
  second.Stop();
}

class CountingWaiter : public ThreadWaiter {
 public:
  void Wait(int64_t now_ns, int64_t deadline_ns) override {
    waits.fetch_add(1);
    MutexLock lock(mutex_);
    while (!woken_) condition_.Wait(mutex_);
    woken_ = false;
  }
  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    condition_.NotifyOne();
  }
  std::atomic<int> waits{0};

 private:
  Mutex mutex_;
  CondVar condition_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(ThreadRunnerTest, ABodyMayBringItsOwnWaitingPlace) {
  Worker worker;
  CountingWaiter waiter;
  ThreadRunner runner("worker", worker, waiter, Clock::Real());
  ASSERT_TRUE(runner.Start().ok());
  while (waiter.waits.load() < 1) std::this_thread::yield();
  worker.work.fetch_add(1);
  waiter.Wake();
  while (waiter.waits.load() < 2) std::this_thread::yield();
  EXPECT_EQ(worker.done.load(), 1);
  runner.Stop();
}

}  // namespace
}  // namespace gyre
