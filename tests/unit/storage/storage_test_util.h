// What the storage tests share: a disk thread that runs when told, a listener
// that counts, appends and reads in one call.
#ifndef GYRE_TESTS_UNIT_STORAGE_STORAGE_TEST_UTIL_H_
#define GYRE_TESTS_UNIT_STORAGE_STORAGE_TEST_UTIL_H_

#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "engine/fs/file_io.h"
#include "engine/record/batch_builder.h"
#include "engine/record/record.h"
#include "engine/storage/partition_log.h"
#include "gtest/gtest.h"

namespace gyre {

// Keeps what was submitted until RunOne or RunAll; or runs it at once.
class ManualFileIo final : public FileIo {
 public:
  void Submit(FileOperation* operation) override {
    queue_.push_back(operation);
    if (immediate_) RunAll();
  }
  void set_immediate(bool immediate) { immediate_ = immediate; }
  bool idle() const { return queue_.empty(); }

  bool RunOne() {
    if (queue_.empty()) return false;
    FileOperation* operation = queue_.front();
    queue_.pop_front();
    operation->result = operation->file->Sync().ok() ? IoResult::Bytes(0) : IoResult::Error(EIO);
    operation->on_done(operation);
    return true;
  }
  void RunAll() {
    while (RunOne()) {
    }
  }

 private:
  std::deque<FileOperation*> queue_;
  bool immediate_ = false;
};

class CountingListener final : public LogListener {
 public:
  void OnSettled(PartitionLog& log) override {
    ++settled_count;
    last_settled = log.settled_offset();
  }
  void OnOffline(PartitionLog&) override { ++offline_count; }

  int settled_count = 0;
  int offline_count = 0;
  int64_t last_settled = -1;
};

// One append and what became of it.
struct Append {
  explicit Append(std::string bytes, int32_t leader_epoch = 0) : records(std::move(bytes)) {
    request.records = records;
    request.leader_epoch = leader_epoch;
    request.context = this;
    request.on_done = [](AppendRequest* done) {
      ++static_cast<Append*>(done->context)->done_count;
    };
  }
  Append(const Append&) = delete;

  std::string records;
  AppendRequest request;
  int done_count = 0;
};

inline constexpr int64_t kTestNow = 1'700'000'000'000;

// `count` records "<tag><i>" of `value_bytes` each.
inline std::string MakeBatch(absl::string_view tag, int count = 1, size_t value_bytes = 20,
                             int64_t timestamp = kTestNow, BatchOptions options = {}) {
  BatchBuilder builder(options);
  for (int i = 0; i < count; ++i) {
    std::string value = std::string(tag) + std::to_string(i);
    value.resize(std::max(value.size(), value_bytes), '.');
    builder.Add(timestamp + i, "key", value);
  }
  return builder.Build();
}

// A log on a disk in memory, with everything it borrows.
class LogFixture {
 public:
  explicit LogFixture(FlushMode mode = FlushMode::kGroup, uint64_t seed = 1)
      : disk(seed), flusher(file_io, mode) {
    options.file_system = &disk;
    options.clock = &clock;
    options.flusher = &flusher;
    options.listener = &listener;
    EXPECT_TRUE(disk.CreateDirectory("/data").ok());
    EXPECT_TRUE(disk.SyncDirectory("/").ok());
  }

  // An operation holds its log until it is done.
  ~LogFixture() { file_io.RunAll(); }

  void Create() {
    auto created = PartitionLog::Create(kPath, kPartition, Uuid{1, 2}, options);
    ASSERT_TRUE(created.ok()) << created.status();
    ASSERT_TRUE(disk.SyncDirectory("/data").ok());
    log = *created;
  }
  void Open(bool clean, int64_t recovery_point = -1, int64_t log_start_offset = 0) {
    log = PartitionLog::Open(kPath, kPartition, clean, recovery_point, log_start_offset, options);
  }
  // Appends and returns the base offset; fails the test on an error.
  int64_t Add(std::string bytes, int32_t leader_epoch = 0) {
    gyre::Append append(std::move(bytes), leader_epoch);
    log->Append(&append.request);
    EXPECT_EQ(append.done_count, 1);
    EXPECT_EQ(append.request.error, ErrorCode::kNone) << append.request.message;
    return append.request.base_offset;
  }
  ReadResult Read(int64_t offset, int64_t max_bytes = INT32_MAX, int64_t bound = INT64_MAX,
                  bool min_one_batch = true) {
    return log->Read(offset, max_bytes, bound, min_one_batch);
  }
  std::string BytesOf(const FileSlice& slice) {
    std::string bytes(static_cast<size_t>(slice.size_bytes), '\0');
    if (slice.size_bytes > 0) {
      EXPECT_TRUE(slice.file->ReadExactly(slice.position, bytes.data(), bytes.size()).ok());
    }
    return bytes;
  }
  // Base offsets of the batches from `offset` to the end, over all segments.
  std::vector<int64_t> BaseOffsets(int64_t offset = 0) {
    std::vector<int64_t> bases;
    while (true) {
      const ReadResult result = Read(offset);
      EXPECT_EQ(result.error, ErrorCode::kNone);
      if (result.slice.size_bytes == 0) return bases;
      const std::string bytes = BytesOf(result.slice);
      for (absl::string_view rest = bytes; !rest.empty();) {
        EXPECT_EQ(CheckBatchShape(rest), BatchShape::kOk);
        const RecordBatchView view(rest);
        EXPECT_EQ(view.crc(),
                  ComputeBatchCrc(rest.substr(0, static_cast<size_t>(view.size_bytes()))));
        bases.push_back(view.base_offset());
        rest.remove_prefix(static_cast<size_t>(view.size_bytes()));
      }
      offset = result.next_offset;
    }
  }

  static constexpr const char* kPath = "/data/t-0";
  const TopicPartition kPartition{"t", 0};
  FaultInjectingFileSystem disk;
  ManualClock clock{0, kTestNow};
  ManualFileIo file_io;
  CountingListener listener;
  Flusher flusher;
  PartitionLogOptions options;
  std::shared_ptr<PartitionLog> log;
};

}  // namespace gyre

#endif  // GYRE_TESTS_UNIT_STORAGE_STORAGE_TEST_UTIL_H_
