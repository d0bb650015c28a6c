// A small broker's storage on a disk that can lose power, and what clients were
// promised: every acks=all acknowledgement is remembered and compared with what
// the log holds after each crash. Violations are collected, not asserted, so
// that a test can show that the checker sees a loss.
//
// Everything runs on one thread in an order drawn from a seed.
#ifndef GYRE_TESTS_CRASH_STORAGE_WORLD_H_
#define GYRE_TESTS_CRASH_STORAGE_WORLD_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "engine/fs/file_io.h"
#include "engine/storage/log_manager.h"

namespace gyre {

// The disk thread: operations complete when told, in any order.
class ScheduledFileIo final : public FileIo {
 public:
  void Submit(FileOperation* operation) override { pending_.push_back(operation); }
  bool idle() const { return pending_.empty(); }
  // Carries one of the pending operations out.
  void RunOne(Random& random);
  void RunAll(Random& random);

 private:
  std::vector<FileOperation*> pending_;
};

class StorageWorld {
 public:
  explicit StorageWorld(uint64_t seed, FlushMode mode = FlushMode::kGroup);
  ~StorageWorld();

  FaultInjectingFileSystem& disk() { return disk_; }
  Random& random() { return random_; }

  // Opens the directory; false when the disk refuses (power is off).
  bool Start();
  // One random thing: an append, a disk operation, a checkpoint, a partition
  // created or deleted.
  void Step();
  // The process is gone; what was asked of the disk is lost with it.
  void Kill();
  bool StopCleanly();
  // After Start: compares the logs with the promises. What is found there is a
  // promise from now on, since readers may see it.
  void Check();

  const std::vector<std::string>& violations() const { return violations_; }
  int64_t acknowledged_count() const { return acknowledged_count_; }

 private:
  struct PendingAppend {
    AppendRequest request;
    std::string records;
    std::string value;
    bool done = false;
  };
  struct Promised {
    bool exists = false;   // Create was answered
    bool is_gone = false;  // Delete was answered
    Uuid topic_id;
    std::map<int64_t, std::string> records;  // offset -> value
  };

  void StepAppend(const TopicPartition& partition);
  void StepCreateOrDelete();
  void CollectAcknowledgements();
  void CheckLog(PartitionLog& log, Promised& promised);
  void Violate(const TopicPartition& partition, const std::string& what);

  FaultInjectingFileSystem disk_;
  Random random_;
  ManualClock clock_;
  ScheduledFileIo file_io_;
  LogManagerOptions options_;
  std::unique_ptr<DataDirectory> directory_;
  std::unique_ptr<LogManager> manager_;

  std::vector<TopicPartition> partitions_;
  std::map<TopicPartition, Promised> promised_;
  std::map<TopicPartition, std::deque<std::unique_ptr<PendingAppend>>> pending_;
  uint64_t next_value_ = 0;
  uint64_t next_topic_id_ = 1;
  int64_t acknowledged_count_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace gyre

#endif  // GYRE_TESTS_CRASH_STORAGE_WORLD_H_
