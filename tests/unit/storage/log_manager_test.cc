#include "engine/storage/log_manager.h"

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/unit/storage/storage_test_util.h"

namespace gyre {
namespace {

const TopicPartition kFirst{"topic", 0};
const TopicPartition kSecond{"my-topic", 12};
const Uuid kTopicId{7, 8};

// A broker's storage: started, stopped and crashed.
class LogManagerTest : public testing::Test {
 protected:
  LogManagerTest() {
    file_io_.set_immediate(true);
    manager_options_.file_io = &file_io_;
    manager_options_.clock = &clock_;
    manager_options_.recovery_thread_count = 0;
    directory_options_.fresh_cluster_id = Uuid{1, 1};
    directory_options_.fresh_directory_id = Uuid{2, 2};
  }

  void Start() {
    auto directory = DataDirectory::Open(disk_, "/data", directory_options_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    directory_ = *std::move(directory);
    auto manager = LogManager::Open(*directory_, manager_options_);
    ASSERT_TRUE(manager.ok()) << manager.status();
    manager_ = *std::move(manager);
  }
  void Stop() {
    const absl::Status status = manager_->Close(42);
    ASSERT_TRUE(status.ok()) << status;
    Drop();
  }
  // What a killed process leaves: its files, nothing else.
  void Drop() {
    manager_.reset();
    directory_.reset();
  }
  LogRef Create(const TopicPartition& partition, Uuid topic_id = kTopicId) {
    auto log = manager_->Create(partition, topic_id, manager_options_.default_config);
    EXPECT_TRUE(log.ok()) << log.status();
    return *log;
  }
  void Add(const LogRef& log, int count = 1) {
    for (int i = 0; i < count; ++i) {
      Append append(MakeBatch("a", 2));
      log->Append(&append.request);
      ASSERT_EQ(append.request.error, ErrorCode::kNone) << append.request.message;
    }
  }
  bool Exists(const std::string& path) { return *disk_.Exists(path); }

  FaultInjectingFileSystem disk_{1};
  ManualClock clock_{0, kTestNow};
  ManualFileIo file_io_;
  LogManagerOptions manager_options_;
  DataDirectoryOptions directory_options_;
  std::unique_ptr<DataDirectory> directory_;
  std::unique_ptr<LogManager> manager_;
};

TEST_F(LogManagerTest, LogsSurviveACleanStop) {
  Start();
  Add(Create(kFirst), 3);
  Add(Create(kSecond), 4);
  Stop();
  EXPECT_TRUE(Exists("/data/.kafka_cleanshutdown"));
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  Start();
  EXPECT_TRUE(directory_->was_clean_stop());
  EXPECT_EQ(directory_->last_broker_epoch(), 42);
  EXPECT_EQ(manager_->recovered_log_count(), 0);
  EXPECT_EQ(manager_->All().size(), 2u);
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 6);
  EXPECT_EQ(manager_->Find(kSecond)->log_end_offset(), 8);
  EXPECT_EQ(manager_->Find(kSecond)->topic_id(), kTopicId);
  EXPECT_EQ(manager_->Find({"other", 0}), nullptr);
}

TEST_F(LogManagerTest, AKilledProcessIsAnUncleanStopAndEveryLogIsScanned) {
  Start();
  Add(Create(kFirst), 3);
  Drop();
  Start();
  EXPECT_FALSE(directory_->was_clean_stop());
  EXPECT_EQ(manager_->recovered_log_count(), 1);
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 6);
}

TEST_F(LogManagerTest, TheCleanMarkerIsGoneAsSoonAsTheDirectoryIsOpenAgain) {
  Start();
  Create(kFirst);
  Stop();
  Start();
  EXPECT_FALSE(Exists("/data/.kafka_cleanshutdown"));
  Drop();
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  Start();
  EXPECT_FALSE(directory_->was_clean_stop());
}

TEST_F(LogManagerTest, AnEmptyCreatedPartitionSurvivesPowerLoss) {
  Start();
  Create(kFirst);
  Drop();
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  Start();
  ASSERT_NE(manager_->Find(kFirst), nullptr);
  EXPECT_EQ(manager_->Find(kFirst)->topic_id(), kTopicId);
}

TEST_F(LogManagerTest, APartitionWhoseNameAKilledProcessLeftUnsyncedIsDurableOnceUsed) {
  Start();
  disk_.SetSyncDirectoryDisabled(true);  // killed before that
  Create(kFirst);
  Drop();
  disk_.SetSyncDirectoryDisabled(false);
  Start();
  ASSERT_NE(manager_->Find(kFirst), nullptr);
  Add(manager_->Find(kFirst), 3);
  Drop();
  disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  Start();
  ASSERT_NE(manager_->Find(kFirst), nullptr);
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 6);
}

TEST_F(LogManagerTest, CreatingTwiceIsOneLogUnlessTheTopicIdDiffers) {
  Start();
  const LogRef log = Create(kFirst);
  EXPECT_EQ(Create(kFirst), log);
  EXPECT_TRUE(absl::IsAlreadyExists(manager_->Create(kFirst, Uuid{9, 9}, LogConfig()).status()));
}

TEST_F(LogManagerTest, ADeletedPartitionIsGoneForGood) {
  Start();
  const LogRef log = Create(kFirst);
  Add(log, 3);
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  ASSERT_TRUE(manager_->Delete(kFirst).ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->Delete(kFirst)));
  EXPECT_EQ(manager_->Find(kFirst), nullptr);
  const std::vector<std::string> names = *disk_.List("/data");
  for (const std::string& name : names) EXPECT_FALSE(absl::StartsWith(name, "topic-0")) << name;
  // A new life of the name starts from nothing, its recovery point too.
  Add(Create(kFirst, Uuid{9, 9}), 1);
  Drop();
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 2);
  EXPECT_EQ(manager_->Find(kFirst)->topic_id(), (Uuid{9, 9}));
}

TEST_F(LogManagerTest, ADeletionThatACrashInterruptedIsFinished) {
  Start();
  Add(Create(kFirst), 3);
  ASSERT_TRUE(manager_->Find(kFirst)->MarkDeleted("/data/topic-0.x-delete").ok());
  Drop();
  Start();
  EXPECT_FALSE(Exists("/data/topic-0.x-delete"));
  EXPECT_EQ(manager_->Find(kFirst), nullptr);
}

TEST_F(LogManagerTest, ALogThatLostItsTopicIdTakesTheOneItIsGiven) {
  Start();
  Add(Create(kFirst), 3);
  Drop();
  ASSERT_TRUE(disk_.Remove("/data/topic-0/partition.metadata").ok());
  Start();
  const LogRef log = *manager_->Create(kFirst, Uuid{5, 6}, LogConfig());
  EXPECT_EQ(log->log_end_offset(), 6);
  Drop();
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->topic_id(), (Uuid{5, 6}));
}

TEST_F(LogManagerTest, ALogWithAGarbledTopicIdStaysOfflineAndWhole) {
  Start();
  Add(Create(kFirst), 3);
  Drop();
  ASSERT_TRUE(disk_.WriteFileAtomically("/data/topic-0/partition.metadata", "xxxx").ok());
  Start();
  const LogRef log = *manager_->Create(kFirst, Uuid{5, 6}, LogConfig());
  EXPECT_TRUE(log->is_offline());
  EXPECT_TRUE(Exists("/data/topic-0/00000000000000000000.log"));
}

TEST_F(LogManagerTest, ALogThatIsSetAsideKeepsItsFilesAndFreesItsName) {
  Start();
  Add(Create(kFirst), 3);
  ASSERT_TRUE(manager_->SetAside(kFirst).ok());
  EXPECT_EQ(Create(kFirst, Uuid{9, 9})->log_end_offset(), 0);
  Drop();
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->topic_id(), (Uuid{9, 9}));
  int stray_count = 0;
  const std::vector<std::string> names = *disk_.List("/data");
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, "-stray")) continue;
    ++stray_count;
    EXPECT_TRUE(Exists(absl::StrCat("/data/", name, "/00000000000000000000.log")));
  }
  EXPECT_EQ(stray_count, 1);
}

TEST_F(LogManagerTest, ANewLifeOfANameForgetsTheRecoveryPointThatACrashLeft) {
  Start();
  Add(Create(kFirst), 3);
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  // As a crash in the middle of Delete leaves it.
  ASSERT_TRUE(manager_->Find(kFirst)->MarkDeleted("/data/topic-0.x-delete").ok());
  Drop();
  Start();
  Create(kFirst, Uuid{9, 9});
  Drop();
  Start();
  EXPECT_FALSE(manager_->Find(kFirst)->is_offline());
}

TEST_F(LogManagerTest, ADirectoryLeftHalfMadeIsNoPartition) {
  Start();
  Create(kFirst);
  ASSERT_TRUE(disk_.CreateDirectory("/data/half-0").ok());
  Drop();
  Start();
  EXPECT_EQ(manager_->Find({"half", 0}), nullptr);
  EXPECT_FALSE(Exists("/data/half-0"));
}

TEST_F(LogManagerTest, OneDamagedLogIsOfflineAndTheRestServes) {
  Start();
  Add(Create(kFirst), 3);
  Add(Create(kSecond), 3);
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  Drop();
  FileRef file = *disk_.Open("/data/topic-0/00000000000000000000.log", OpenMode::kReadWrite);
  ASSERT_TRUE(file->WriteAll(70, "XX", 2).ok());
  Start();
  EXPECT_TRUE(manager_->Find(kFirst)->is_offline());
  EXPECT_FALSE(manager_->Find(kSecond)->is_offline());
  Add(manager_->Find(kSecond), 1);
  // The stop is not clean, and what was known of the offline log is kept.
  EXPECT_FALSE(manager_->Close(1).ok());
  EXPECT_FALSE(Exists("/data/.kafka_cleanshutdown"));
  EXPECT_EQ((*directory_->ReadRecoveryPoints()).at(kFirst), 6);
}

TEST_F(LogManagerTest, APartitionWhoseDirectoryIsGoneIsOfflineNotEmpty) {
  Start();
  Add(Create(kFirst), 3);
  Add(Create(kSecond), 3);
  Create({"empty", 0});
  Stop();
  ASSERT_TRUE(disk_.Rename("/data/topic-0", "/data/elsewhere").ok());
  ASSERT_TRUE(disk_.RemoveRecursively("/data/empty-0").ok());
  for (int i = 0; i < 2; ++i) {
    Start();
    const LogRef log = manager_->Find(kFirst);
    ASSERT_NE(log, nullptr);
    EXPECT_TRUE(log->is_missing());
    EXPECT_TRUE(log->is_offline());
    EXPECT_TRUE(absl::StrContains(log->offline_reason().message(), "was synced up to 6"))
        << log->offline_reason();
    EXPECT_EQ(Create(kFirst), log) << "and it is not made anew";
    EXPECT_FALSE(Exists("/data/topic-0"));
    EXPECT_EQ(manager_->Find({"empty", 0}), nullptr) << "nothing of it is lost";
    Add(manager_->Find(kSecond), 1);
    // What is known of it is kept.
    EXPECT_FALSE(manager_->Close(1).ok());
    Drop();
  }
  ASSERT_TRUE(disk_.Rename("/data/elsewhere", "/data/topic-0").ok());
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 6);
  Stop();
}

TEST_F(LogManagerTest, AMissingPartitionCanBeDeletedAndMadeAnew) {
  Start();
  Add(Create(kFirst), 3);
  Stop();
  ASSERT_TRUE(disk_.RemoveRecursively("/data/topic-0").ok());
  Start();
  ASSERT_TRUE(manager_->Find(kFirst)->is_missing());
  const absl::Status deleted = manager_->Delete(kFirst);
  EXPECT_TRUE(deleted.ok()) << deleted;
  Add(Create(kFirst, Uuid{9, 9}), 1);
  Drop();
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 2);
}

TEST_F(LogManagerTest, ADeletionOnAFullDiskMakesRoom) {
  Start();
  Add(Create(kFirst), 3);
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  disk_.SetCapacityBytes(0);
  // The files are gone, which is what makes room; not so what the checkpoint says of them.
  EXPECT_FALSE(manager_->Delete(kFirst).ok());
  EXPECT_EQ(manager_->Find(kFirst), nullptr);
  const std::vector<std::string> names = *disk_.List("/data");
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, "topic-0")) continue;
    EXPECT_TRUE(absl::EndsWith(name, "-delete")) << name;
    EXPECT_TRUE(disk_.List("/data/" + name)->empty());
  }
  // That is not believed of a new life of the name.
  EXPECT_FALSE(manager_->Create(kFirst, Uuid{9, 9}, LogConfig()).ok());
  disk_.SetCapacityBytes(-1);
  Add(Create(kFirst, Uuid{9, 9}), 1);
  Drop();
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 2);
}

TEST_F(LogManagerTest, ADeletionThatACrashInterruptedLeavesNothingMissing) {
  Start();
  Add(Create(kFirst), 3);
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  ASSERT_TRUE(manager_->Find(kFirst)->MarkDeleted("/data/topic-0.x-delete").ok());
  Drop();
  for (int i = 0; i < 2; ++i) {
    Start();
    EXPECT_EQ(manager_->Find(kFirst), nullptr);
    Drop();
    disk_.PowerLoss(PowerLossMode::kDropUnsynced);
  }
}

TEST_F(LogManagerTest, CheckpointsHoldWhatIsDurable) {
  file_io_.set_immediate(false);
  Start();
  const LogRef log = Create(kFirst);
  Add(log, 2);
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  EXPECT_EQ((*directory_->ReadRecoveryPoints()).at(kFirst), 0);
  file_io_.RunAll();
  ASSERT_TRUE(manager_->WriteCheckpoints().ok());
  EXPECT_EQ((*directory_->ReadRecoveryPoints()).at(kFirst), 4);
  EXPECT_EQ(*disk_.ReadFile("/data/recovery-point-offset-checkpoint"), "0\n1\ntopic 0 4\n");
}

TEST_F(LogManagerTest, IntervalModeFlushesWhenAsked) {
  manager_options_.flush_mode = FlushMode::kInterval;
  Start();
  const LogRef log = Create(kFirst);
  Add(log, 2);
  EXPECT_EQ(log->durable_offset(), 0);
  EXPECT_EQ(log->settled_offset(), 4);
  manager_->RequestFlushAll();
  EXPECT_EQ(log->durable_offset(), 4);
}

TEST_F(LogManagerTest, ADamagedCheckpointCostsAScanNotTheData) {
  Start();
  Add(Create(kFirst), 3);
  ASSERT_TRUE(disk_.WriteFileAtomically("/data/recovery-point-offset-checkpoint", "junk").ok());
  Drop();
  Start();
  EXPECT_EQ(manager_->Find(kFirst)->log_end_offset(), 6);
}

TEST_F(LogManagerTest, SeveralThreadsOpenAllLogs) {
  Start();
  for (int32_t i = 0; i < 20; ++i) Add(Create({"many", i}), i % 3);
  Drop();
  manager_options_.recovery_thread_count = 3;
  Start();
  ASSERT_EQ(manager_->All().size(), 20u);
  for (int32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(manager_->Find({"many", i})->log_end_offset(), i % 3 * 2);
  }
}

// The same on the kernel's file system: written, killed with a torn tail, read.
TEST(LogManagerOnARealDiskTest, ATornTailAfterAKillIsRepaired) {
  FileSystem& disk = FileSystem::Real();
  const std::string path = absl::StrCat(testing::TempDir(), "/log_manager_test_data");
  ASSERT_TRUE(disk.RemoveRecursively(path).ok());
  ManualClock clock(0, kTestNow);
  ManualFileIo file_io;
  file_io.set_immediate(true);
  DataDirectoryOptions directory_options;
  directory_options.fresh_cluster_id = Uuid{1, 1};
  directory_options.fresh_directory_id = Uuid{2, 2};
  LogManagerOptions options;
  options.file_io = &file_io;
  options.clock = &clock;
  options.default_config.segment_bytes = 5000;
  std::string last_log;
  {
    auto directory = DataDirectory::Open(disk, path, directory_options);
    ASSERT_TRUE(directory.ok()) << directory.status();
    auto manager = LogManager::Open(**directory, options);
    ASSERT_TRUE(manager.ok()) << manager.status();
    auto log = (*manager)->Create(kFirst, kTopicId, options.default_config);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int i = 0; i < 200; ++i) {
      Append append(MakeBatch("a", 3));
      (*log)->Append(&append.request);
      ASSERT_EQ(append.request.error, ErrorCode::kNone) << append.request.message;
    }
    EXPECT_EQ((*log)->durable_offset(), 600);
    EXPECT_GT((*log)->segment_count(), 3);
    const ReadResult tail = (*log)->Read(599, 1, INT64_MAX, true);
    last_log = tail.slice.file->path();
    // Two processes cannot have it.
    EXPECT_FALSE(DataDirectory::Open(disk, path, directory_options).ok());
  }
  FileRef file = *disk.Open(last_log, OpenMode::kReadWrite);
  ASSERT_TRUE(file->WriteAll(*file->SizeBytes(), "torn", 4).ok());
  auto directory = DataDirectory::Open(disk, path, directory_options);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_FALSE((*directory)->was_clean_stop());
  auto manager = LogManager::Open(**directory, options);
  ASSERT_TRUE(manager.ok()) << manager.status();
  const LogRef log = (*manager)->Find(kFirst);
  EXPECT_EQ(log->log_end_offset(), 600);
  int64_t offset = 0;
  while (offset < 600) {
    const ReadResult read = log->Read(offset, 3000, INT64_MAX, true);
    ASSERT_GT(read.next_offset, offset);
    offset = read.next_offset;
  }
  ASSERT_TRUE((*manager)->Close(1).ok());
  EXPECT_TRUE(*disk.Exists(path + "/.kafka_cleanshutdown"));
  ASSERT_TRUE(disk.RemoveRecursively(path).ok());
}

}  // namespace
}  // namespace gyre
