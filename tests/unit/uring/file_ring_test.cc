#include "engine/uring/file_ring.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/uring/ring_metrics.h"
#include "gtest/gtest.h"
#include "tests/unit/uring/uring_test_util.h"

namespace gyre::uring {
namespace {

// An operation that says when it is done.
struct Awaited : FileOperation {
  std::atomic<bool> done{false};

  Awaited() {
    on_done = [](FileOperation* operation) {
      static_cast<Awaited*>(operation)->done.store(true, std::memory_order_release);
      static_cast<Awaited*>(operation)->done.notify_all();
    };
  }
  IoResult Await() {
    done.wait(false, std::memory_order_acquire);
    done.store(false, std::memory_order_relaxed);
    return result;
  }
};

class FileRingTest : public ::testing::TestWithParam<Rung> {
 protected:
  FileRingTest() : ring_(MakeRing(GetParam()), 4), runner_("log-io", ring_, ring_, Clock::Real()) {}

  TemporaryDirectory directory_;
  FileRing ring_;
  ThreadRunner runner_;
};

INSTANTIATE_TEST_SUITE_P(Rungs, FileRingTest, ::testing::ValuesIn(kRungs), RungName);

TEST_P(FileRingTest, ASyncRunsOnAThreadOfTheKernelThatIsCounted) {
  ASSERT_TRUE(runner_.Start().ok());
  Awaited operation;
  operation.file = NewFile(directory_, "content");
  operation.kind = FileOperation::Kind::kSync;
  // An idle worker stays for seconds, but it may be one of an earlier ring's.
  int seen = 0;
  for (int i = 0; i < 1000 && seen == 0; ++i) {
    ring_.Submit(&operation);
    EXPECT_EQ(operation.Await(), IoResult::Bytes(0));
    seen = WorkerThreadCount();
  }
  EXPECT_GT(seen, 0);
}

TEST_P(FileRingTest, WritesSyncsAndReads) {
  ASSERT_TRUE(runner_.Start().ok());
  Awaited operation;
  operation.file = NewFile(directory_, "");
  std::string text = "durable";
  iovec part = {text.data(), text.size()};
  operation.kind = FileOperation::Kind::kWrite;
  operation.position = 3;
  operation.parts = &part;
  operation.part_count = 1;
  ring_.Submit(&operation);
  EXPECT_EQ(operation.Await(), IoResult::Bytes(7));

  operation.kind = FileOperation::Kind::kSync;
  ring_.Submit(&operation);
  EXPECT_EQ(operation.Await(), IoResult::Bytes(0));

  std::string back(20, '.');
  part = {back.data(), back.size()};
  operation.kind = FileOperation::Kind::kRead;
  ring_.Submit(&operation);
  EXPECT_EQ(operation.Await(), IoResult::Bytes(7)) << "a short result is reported";
  EXPECT_EQ(back.substr(0, 7), "durable");
}

TEST_P(FileRingTest, ReportsTheErrorOfTheKernel) {
  ASSERT_TRUE(runner_.Start().ok());
  NewFile(directory_, "x");
  const absl::StatusOr<FileRef> read_only =
      FileSystem::Real().Open(directory_.path() + "/file", OpenMode::kRead);
  ASSERT_TRUE(read_only.ok());
  Awaited operation;
  operation.file = *read_only;
  char byte = 'y';
  const iovec part = {&byte, 1};
  operation.kind = FileOperation::Kind::kWrite;
  operation.parts = &part;
  operation.part_count = 1;
  ring_.Submit(&operation);
  EXPECT_EQ(operation.Await(), IoResult::Error(EBADF));
}

TEST_P(FileRingTest, AnswersEachOfManyThreadsExactlyOnce) {
  ASSERT_TRUE(runner_.Start().ok());
  const FileRef file = NewFile(directory_, "0123456789");
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::atomic<int> answers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Awaited operation;
      operation.file = file;
      char byte = 0;
      const iovec part = {&byte, 1};
      operation.kind = FileOperation::Kind::kRead;
      operation.position = t;
      operation.parts = &part;
      operation.part_count = 1;
      for (int round = 0; round < kRounds; ++round) {
        ring_.Submit(&operation);
        if (operation.Await() == IoResult::Bytes(1) && byte == '0' + t) answers.fetch_add(1);
        byte = 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers.load(), kThreads * kRounds);
}

TEST_P(FileRingTest, TakesMoreOperationsThanItHasSlots) {
  const FileRef file = NewFile(directory_, "");
  std::vector<Awaited> operations(64);
  for (Awaited& operation : operations) {
    operation.file = file;
    ring_.Submit(&operation);  // before there is a thread
  }
  ASSERT_TRUE(runner_.Start().ok());
  for (Awaited& operation : operations) EXPECT_EQ(operation.Await(), IoResult::Bytes(0));
}

TEST_P(FileRingTest, StoppingAnswersWhatIsOutstanding) {
  const FileRef file = NewFile(directory_, "");
  ASSERT_TRUE(runner_.Start().ok());
  std::vector<Awaited> operations(64);
  for (Awaited& operation : operations) {
    operation.file = file;
    ring_.Submit(&operation);
  }
  runner_.Stop();
  for (Awaited& operation : operations) EXPECT_TRUE(operation.done.load());
}

TEST_P(FileRingTest, StopsWhileItSleeps) {
  for (int i = 0; i < 20; ++i) {
    FileRing ring(MakeRing(GetParam()), 4);
    ThreadRunner runner("log-io", ring, ring, Clock::Real());
    ASSERT_TRUE(runner.Start().ok());
    if (i % 2 == 0) std::this_thread::yield();
    runner.Stop();
  }
}

}  // namespace
}  // namespace gyre::uring
