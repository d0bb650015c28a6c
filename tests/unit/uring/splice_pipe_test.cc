#include "engine/uring/splice_pipe.h"

#include <sys/resource.h>

#include <string>

#include "gtest/gtest.h"
#include "tests/unit/uring/uring_test_util.h"

namespace gyre::uring {
namespace {

using Outcome = SplicePipePool::LeaseOutcome;

class SplicePipePoolTest : public ::testing::Test {
 protected:
  SplicePipePoolTest() : ring_(MakeRing(kRungs[0])) { EXPECT_TRUE(ring_->Attach().ok()); }
  std::unique_ptr<Ring> ring_;
};

TEST_F(SplicePipePoolTest, ReusesAReturnedPipe) {
  SplicePipePool pool(*ring_, 2, 65536);
  const SplicePipePool::Lease first = pool.TryLease(1);
  ASSERT_EQ(first.outcome, Outcome::kLeased);
  pool.Return(first.pipe);
  EXPECT_EQ(pool.idle(), 1u);
  EXPECT_EQ(pool.TryLease(2).pipe.read_fd, first.pipe.read_fd);
  EXPECT_EQ(pool.leased(), 1u);
  pool.Return(first.pipe);
}

TEST_F(SplicePipePoolTest, WaitersAreServedInTheirOrder) {
  SplicePipePool pool(*ring_, 1, 65536);
  const PipeFds pipe = pool.TryLease(1).pipe;
  EXPECT_EQ(pool.TryLease(2).outcome, Outcome::kQueued);
  EXPECT_EQ(pool.TryLease(3).outcome, Outcome::kQueued);
  EXPECT_FALSE(pool.GrantNext().has_value());
  pool.Return(pipe);
  // A newcomer does not overtake those in line.
  EXPECT_EQ(pool.TryLease(4).outcome, Outcome::kQueued);
  const auto granted = pool.GrantNext();
  ASSERT_TRUE(granted.has_value());
  EXPECT_EQ(granted->waiter, 2u);
  EXPECT_FALSE(pool.GrantNext().has_value());
  pool.Return(granted->pipe);
  EXPECT_EQ(pool.GrantNext()->waiter, 3u);
  EXPECT_EQ(pool.waiting(), 1u);
  pool.Forget(4);
  pool.Return(pipe);
  EXPECT_FALSE(pool.GrantNext().has_value());
}

TEST_F(SplicePipePoolTest, ADiscardedPipeMakesRoomForAFreshOne) {
  SplicePipePool pool(*ring_, 1, 65536);
  const PipeFds dirty = pool.TryLease(1).pipe;
  ASSERT_EQ(write(dirty.write_fd, "left over", 9), 9);
  EXPECT_EQ(pool.TryLease(2).outcome, Outcome::kQueued);
  pool.Discard(dirty);
  const auto granted = pool.GrantNext();
  ASSERT_TRUE(granted.has_value());
  char byte;
  EXPECT_EQ(read(granted->pipe.read_fd, &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  pool.Return(granted->pipe);
}

TEST_F(SplicePipePoolTest, FailsRatherThanQueuesWhenNoPipeCanEverCome) {
  SplicePipePool pool(*ring_, 2, 65536);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Outcome outcome = pool.TryLease(1).outcome;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(outcome, Outcome::kFailed);
  EXPECT_EQ(pool.waiting(), 0u);
  const SplicePipePool::Lease lease = pool.TryLease(1);
  EXPECT_EQ(lease.outcome, Outcome::kLeased);
  pool.Return(lease.pipe);
}

}  // namespace
}  // namespace gyre::uring
