// Nothing that was acknowledged with acks=all is lost, whenever the power goes.
#include <string>

#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/crash/storage_world.h"

namespace gyre {
namespace {

constexpr PowerLossMode kModes[] = {PowerLossMode::kDropUnsynced, PowerLossMode::kKeepPrefix,
                                    PowerLossMode::kKeepSubset};

class StorageCrashTest : public testing::Test {
 protected:
  // Recovery warns about what it cuts; thousands of crashes say enough.
  StorageCrashTest() { FLAGS_minloglevel = google::GLOG_FATAL; }
};

#define EXPECT_KEPT(world) \
  EXPECT_TRUE((world).violations().empty()) << absl::StrJoin((world).violations(), "\n")

TEST_F(StorageCrashTest, RandomLivesKeepTheirPromises) {
  int64_t acknowledged_count = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    StorageWorld world(seed);
    for (int life = 0; life < 6; ++life) {
      ASSERT_TRUE(world.Start());
      world.Check();
      const int64_t steps = world.random().Between(1, 150);
      for (int64_t step = 0; step < steps; ++step) world.Step();
      switch (world.random().Below(4)) {
        case 0:
          world.StopCleanly();
          break;
        case 1:  // kill -9: the page cache survives
          world.Kill();
          break;
        default:
          world.disk().PowerLoss(kModes[world.random().Below(3)]);
          world.Kill();
          break;
      }
    }
    ASSERT_TRUE(world.Start());
    world.Check();
    EXPECT_KEPT(world);
    if (HasFailure()) return;
    acknowledged_count += world.acknowledged_count();
  }
  // The test is about something.
  EXPECT_GT(acknowledged_count, 15000);
}

// The same script, with the power going at each of its changing operations.
TEST_F(StorageCrashTest, PowerLossAtEveryOperationKeepsThePromises) {
  constexpr int kSteps = 120;
  for (const PowerLossMode mode : kModes) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      uint64_t operation_count = 0;
      {
        StorageWorld world(seed);
        ASSERT_TRUE(world.Start());
        for (int step = 0; step < kSteps; ++step) world.Step();
        operation_count = world.disk().changing_operation_count();
      }
      ASSERT_GT(operation_count, 100u);
      for (uint64_t at = 1; at <= operation_count; ++at) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << " operation " << at);
        StorageWorld world(seed);
        world.disk().PowerOffAt(at);
        if (world.Start()) {
          for (int step = 0; step < kSteps; ++step) world.Step();
        }
        world.disk().PowerLoss(mode);
        world.Kill();
        ASSERT_TRUE(world.Start());
        world.Check();
        for (int step = 0; step < 20; ++step) world.Step();
        world.disk().PowerLoss(mode);
        world.Kill();
        ASSERT_TRUE(world.Start());
        world.Check();
        EXPECT_KEPT(world);
        if (HasFailure()) return;
      }
    }
  }
}

// Power going once more while recovery is at work.
TEST_F(StorageCrashTest, PowerLossDuringRecoveryKeepsThePromises) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (uint64_t at = 1;; ++at) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " operation " << at);
      StorageWorld world(seed);
      ASSERT_TRUE(world.Start());
      for (int step = 0; step < 100; ++step) world.Step();
      world.disk().PowerLoss(kModes[seed % 3]);
      world.Kill();
      world.disk().PowerOffAt(at);
      (void)world.Start();
      const bool was_hit = world.disk().powered_off();
      world.disk().PowerLoss(kModes[(seed + at) % 3]);
      world.Kill();
      ASSERT_TRUE(world.Start());
      world.Check();
      EXPECT_KEPT(world);
      if (HasFailure()) return;
      if (!was_hit) break;
    }
  }
}

TEST_F(StorageCrashTest, FailedSyncsAndAFullDiskBreakNoPromise) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    StorageWorld world(seed);
    for (int life = 0; life < 4; ++life) {
      ASSERT_TRUE(world.Start());
      world.Check();
      for (int step = 0; step < 60; ++step) world.Step();
      switch (world.random().Below(3)) {
        case 0:
          world.disk().InjectFault({Fault::Operation::kSync, world.random().Below(10) + 1});
          break;
        case 1:
          world.disk().InjectFault({Fault::Operation::kWrite, world.random().Below(10) + 1});
          break;
        case 2:
          world.disk().SetCapacityBytes(world.random().Between(0, 20000));
          break;
      }
      for (int step = 0; step < 60; ++step) world.Step();
      world.disk().ClearFaults();
      world.disk().SetCapacityBytes(-1);
      world.disk().PowerLoss(kModes[world.random().Below(3)]);
      world.Kill();
    }
    ASSERT_TRUE(world.Start());
    world.Check();
    EXPECT_KEPT(world);
    if (HasFailure()) return;
  }
}

// What the tests above would say if the syncs were left out.
template <typename Disable>
int CountLossySeeds(Disable disable) {
  int lossy_count = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StorageWorld world(seed);
    // The directory itself is made with an honest disk.
    if (!world.Start()) continue;
    disable(world.disk());
    for (int step = 0; step < 150; ++step) world.Step();
    world.disk().PowerLoss(PowerLossMode::kDropUnsynced);
    world.Kill();
    if (!world.Start()) continue;
    world.Check();
    if (!world.violations().empty()) ++lossy_count;
  }
  return lossy_count;
}

TEST_F(StorageCrashTest, WithoutTheFdatasyncTheCheckerSeesTheLoss) {
  EXPECT_GE(CountLossySeeds([](FaultInjectingFileSystem& disk) { disk.SetSyncDisabled(true); }),
            19);
}

TEST_F(StorageCrashTest, WithoutTheDirectorySyncsTheCheckerSeesTheLoss) {
  EXPECT_GE(
      CountLossySeeds([](FaultInjectingFileSystem& disk) { disk.SetSyncDirectoryDisabled(true); }),
      19);
}

TEST_F(StorageCrashTest, WithoutGroupFlushAnAcknowledgementDoesNotSurvivePowerLoss) {
  StorageWorld world(1, FlushMode::kNone);
  ASSERT_TRUE(world.Start());
  for (int step = 0; step < 150; ++step) world.Step();
  world.disk().PowerLoss(PowerLossMode::kDropUnsynced);
  world.Kill();
  ASSERT_TRUE(world.Start());
  world.Check();
  EXPECT_FALSE(world.violations().empty());
}

}  // namespace
}  // namespace gyre
